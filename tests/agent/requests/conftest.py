"""A tracker on a clock that is turned by hand, installed as the one that the public marks go to."""

import pytest
from midwatch.requests.tracker import Tracker, install
from midwatch.testing import FakeClock


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def tracker(clock):
    tracker = Tracker(clock)
    install(tracker)
    yield tracker
    install(None)
