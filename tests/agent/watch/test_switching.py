import os
import sys
import threading
import warnings

import pytest
from midwatch.watch.switching import EAGER_S, eager_switching


@pytest.fixture(autouse=True)
def _interval_of_the_host():
    before_s = sys.getswitchinterval()
    yield
    sys.setswitchinterval(before_s)


def test_the_interval_is_lowered_while_the_block_lasts_and_put_back_also_after_an_error():
    sys.setswitchinterval(0.005)
    seen = []

    def fail():
        with eager_switching():
            seen.append(sys.getswitchinterval())
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert seen == [pytest.approx(EAGER_S, abs=1e-6)]
    assert sys.getswitchinterval() == pytest.approx(0.005, abs=1e-6)


def test_a_host_that_switches_more_often_still_is_left_alone():
    sys.setswitchinterval(0.0001)
    with eager_switching():
        assert sys.getswitchinterval() == pytest.approx(0.0001, abs=1e-6)
    assert sys.getswitchinterval() == pytest.approx(0.0001, abs=1e-6)


def test_what_the_host_sets_meanwhile_stays():
    sys.setswitchinterval(0.005)
    with eager_switching():
        sys.setswitchinterval(0.002)
    assert sys.getswitchinterval() == pytest.approx(0.002, abs=1e-6)


def test_a_child_that_is_forked_meanwhile_has_the_interval_of_before():
    sys.setswitchinterval(0.005)
    with eager_switching():
        reader, writer = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # from Python 3.12 on: of a fork beside other threads
            pid = os.fork()
        if pid == 0:
            os.write(writer, b"put back" if sys.getswitchinterval() > 0.004 else b"lowered")
            os._exit(0)
        os.waitpid(pid, 0)
        said = os.read(reader, 100)
        os.close(reader)
        os.close(writer)
        assert sys.getswitchinterval() == pytest.approx(EAGER_S, abs=1e-6)
    assert said == b"put back"


@pytest.mark.parametrize(("threads", "interval_s"), [(0, 0.0005), (60, 0.001), (400, 0.005)])
def test_the_more_threads_may_ask_the_less_often_they_do(stage, threads, interval_s):
    sys.setswitchinterval(0.005)
    for _ in range(threads - len(threading.enumerate())):
        stage.start(stage.done.wait)
    with eager_switching():
        assert sys.getswitchinterval() == pytest.approx(interval_s, rel=0.2)
    assert sys.getswitchinterval() == pytest.approx(0.005)
