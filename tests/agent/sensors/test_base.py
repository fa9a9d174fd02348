"""The state of a sensor, and its recent readings."""

import errno
import itertools

import pytest
from midwatch.model.status import Part
from midwatch.sensors.base import Sensor, Unavailable
from midwatch.sensors.readings import Readings


class Plain(Sensor):
    name = "plain"

    def __init__(self, *, on_open=None, on_look=None, on_close=None):
        super().__init__()
        self.calls = []
        self.raises = {"open": on_open, "look": on_look, "close": on_close}

    def _do(self, what):
        self.calls.append(what)
        if self.raises[what] is not None:
            raise self.raises[what]

    def _open(self):
        self._do("open")

    def _look(self, now_ns):
        self._do("look")

    def _close(self):
        self._do("close")


def test_a_sensor_that_works(swallowed):
    sensor = Plain()
    assert sensor.status() == Part("plain", "off", "not started")
    sensor.tick(0)
    sensor.start()
    sensor.start()
    sensor.tick(1)
    assert sensor.status() == Part("plain", "on", "")
    sensor.stop()
    sensor.stop()
    sensor.tick(2)
    assert sensor.calls == ["open", "look", "close"]
    assert sensor.status().state == "off"
    assert not swallowed


def test_unavailable_is_not_failed(swallowed):
    sensor = Plain(on_open=Unavailable("There is no such thing here."))
    sensor.start()
    sensor.tick(1)
    assert sensor.status() == Part("plain", "unavailable", "There is no such thing here.")
    assert sensor.calls == ["open", "close"]
    assert not swallowed


def test_what_is_needed_may_go_later(swallowed):
    sensor = Plain(on_look=Unavailable("It has gone."))
    sensor.start()
    sensor.tick(1)
    assert sensor.status().state == "unavailable"
    assert not swallowed


def test_a_sensor_that_breaks_goes_off_after_three_looks_in_a_row(swallowed):
    sensor = Plain(on_look=OSError("broken"), on_close=OSError("this too"))
    sensor.start()
    for _ in range(2):
        sensor.tick(1)
    assert sensor.status().state == "on"
    sensor.raises["look"] = None
    sensor.tick(1)
    sensor.raises["look"] = OSError("broken")
    for _ in range(5):
        sensor.tick(1)
    assert sensor.status() == Part("plain", "failed", "switched itself off after OSError: broken")
    assert sensor.calls.count("look") == 6
    assert [place for place, _ in swallowed] == ["sensor.plain"] * 5 + ["sensor.plain.close"]


SECOND = 10**9


def test_a_sensor_that_went_off_tries_again_ever_more_seldom_and_tells_nothing_twice(swallowed):
    sensor = Plain(on_open=OSError("broken"))
    sensor.start()
    tries = []
    for second in range(4_000):
        before = sensor.calls.count("open")
        sensor.tick(second * SECOND)
        tries += [second] * (sensor.calls.count("open") - before)
    waits = [later - earlier for earlier, later in itertools.pairwise(tries)]
    assert tries[0] == 10
    assert waits[:6] == [21, 41, 81, 161, 321, 601], "twice as long each time, and a tick to begin with"
    assert set(waits[6:]) == {601}
    assert len(swallowed) == 1
    assert sensor.calls.count("close") == len(tries) + 1
    assert sensor.status().state == "failed"


@pytest.mark.parametrize("trouble", [Unavailable("It has gone."), OSError("broken"), OSError(errno.EMFILE, "too many")])
def test_what_was_missing_for_a_while_costs_a_while(swallowed, trouble):
    sensor = Plain(on_look=trouble)
    sensor.start()
    for second in range(8):
        sensor.tick(second * SECOND)
    assert sensor.status().state in ("failed", "unavailable")
    sensor.raises["look"] = None
    for second in range(8, 20):
        sensor.tick(second * SECOND)
    assert sensor.status() == Part("plain", "on")
    assert sensor.calls.count("open") == 2
    swallowed.clear()


def test_a_long_outage_makes_no_short_one_longer(swallowed):
    sensor = Plain(on_look=Unavailable("It has gone."))
    sensor.start()

    def until(state, second):
        while sensor.status().state != state:
            second += 1
            sensor.tick(second * SECOND)
        return second

    for second in range(3_600):
        sensor.tick(second * SECOND)
    sensor.raises["look"] = None
    back = until("on", 3_600)
    for second in range(back, back + 61):
        sensor.tick(second * SECOND)
    sensor.raises["look"] = Unavailable("It has gone.")
    gone = until("unavailable", back + 61)
    sensor.raises["look"] = None
    assert until("on", gone) - gone <= 12


def test_no_descriptor_left_is_told_in_one_line_and_is_no_error(swallowed):
    sensor = Plain(on_look=OSError(errno.EMFILE, "Too many open files"))
    sensor.start()
    sensor.tick(1)
    assert sensor.status().state == "unavailable"
    assert "raise the limit of open files" in sensor.status().detail
    assert not swallowed


def test_a_sensor_that_was_stopped_does_not_try_again():
    sensor = Plain(on_open=Unavailable("There is no such thing here."))
    sensor.start()
    sensor.stop()
    for second in range(100):
        sensor.tick(second * SECOND)
    assert sensor.calls == ["open", "close"]
    assert sensor.status().state == "off"


def test_a_sensor_that_cannot_open_fails_at_once(swallowed):
    sensor = Plain(on_open=ValueError("no"))
    sensor.start()
    assert sensor.status().state == "failed"
    assert len(swallowed) == 1


def test_a_sensor_can_be_started_again():
    sensor = Plain()
    for _ in range(2):
        sensor.start()
        sensor.stop()
    assert sensor.calls == ["open", "close"] * 2


def test_only_exceptions_are_swallowed():
    sensor = Plain(on_look=KeyboardInterrupt())
    sensor.start()
    with pytest.raises(KeyboardInterrupt):
        sensor.tick(1)


def test_readings_by_time_and_new_ones_once():
    readings = Readings(3)
    for start in range(5):
        readings.add(start * 10, start * 10 + 5, start)
    assert readings.between(0, 100) == (2, 3, 4)
    assert readings.between(25, 30) == (2, 3)
    assert readings.between(26, 29) == ()
    assert readings.take() == [2, 3, 4]
    assert readings.take() == []
    assert readings.between(0, 100) == (2, 3, 4)
