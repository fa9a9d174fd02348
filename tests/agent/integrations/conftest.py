import pytest
from midwatch.clock import SystemClock
from midwatch.integrations.imports import ImportHooks
from midwatch.requests.tracker import Tracker, install


@pytest.fixture
def tracker():
    tracker = Tracker(SystemClock())
    install(tracker)
    yield tracker
    install(None)


@pytest.fixture
def hooks():
    hooks = ImportHooks()
    yield hooks
    hooks.stop()
