import gc
import os
import warnings

import pytest
from midwatch.manners import CALM_S, LEISURE_S, REST_S, AtLeisure, GiveWay, few_collections
from midwatch.testing import FakeClock


def test_it_rests_once_a_piece_of_work_is_done_and_then_starts_anew():
    clock = FakeClock()
    give_way = GiveWay(clock, piece_ns=200_000, rest_s=0.0003)
    give_way()
    clock.advance(0.00019)
    give_way()
    assert clock.slept == []
    clock.advance(0.00002)
    give_way()
    give_way()
    assert clock.slept == [0.0003]
    clock.advance(0.0002)
    give_way()
    assert clock.slept == [0.0003, 0.0003]


def test_at_leisure_it_rests_for_longer_until_somebody_waits():
    clock, urgent, calms = FakeClock(), [], []
    give_way = AtLeisure(clock, lambda: bool(urgent), lambda seconds: calms.append(seconds) or True)

    def work():
        clock.advance(0.0005)
        give_way()

    give_way.begin(hurried=False)
    work()
    urgent.append(1)
    work()
    urgent.clear()
    work()
    give_way.begin(hurried=True)
    work()
    assert clock.slept == [LEISURE_S, REST_S, LEISURE_S, REST_S]
    assert calms == [CALM_S] * 3, "before the first work and after each long rest"


def test_where_there_is_no_calm_it_is_waited_for_once():
    clock, calms = FakeClock(), []
    give_way = AtLeisure(clock, lambda: False, lambda seconds: bool(calms.append(seconds)))
    for _ in range(2):
        give_way.begin(hurried=False)
        for _ in range(5):
            clock.advance(0.0005)
            give_way()
    assert calms == [CALM_S] * 2


def test_the_time_between_two_works_is_no_work():
    clock = FakeClock()
    give_way = AtLeisure(clock, lambda: False, clock.sleep)
    clock.advance(1.0)
    give_way.begin(hurried=False)
    give_way()
    assert clock.slept == [CALM_S], "the wait for calm is no work either"


@pytest.fixture
def threshold():
    before = gc.get_threshold()
    gc.set_threshold(700, 10, 10)
    yield
    gc.set_threshold(*before)


def test_the_collector_stays_away_and_comes_back(threshold):
    before = gc.get_stats()[0]["collections"]
    with few_collections():
        kept = [[] for _ in range(20_000)]
        assert gc.get_stats()[0]["collections"] == before
    assert gc.get_threshold()[:2] == (700, 10)
    kept += [[] for _ in range(20_000)]
    assert gc.get_stats()[0]["collections"] > before


def test_what_the_host_does_to_the_collector_meanwhile_stays(threshold):
    with few_collections():
        gc.set_threshold(0)
    assert gc.get_threshold()[0] == 0
    with few_collections():
        assert gc.get_threshold()[0] == 0
    gc.set_threshold(2_000_000, 10, 10)
    with few_collections():
        assert gc.get_threshold()[0] == 2_000_000


def test_a_child_that_is_forked_meanwhile_has_the_threshold_of_before(threshold):
    with few_collections():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # from Python 3.12 on: of a fork beside other threads
            pid = os.fork()
        if not pid:
            os._exit(0 if gc.get_threshold()[0] == 700 else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
