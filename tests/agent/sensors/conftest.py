"""A clock to turn by hand, and a guard that does not hide what a sensor under test does wrong."""

import pytest
from midwatch.guard import guard


class FakeClock:
    def __init__(self):
        self.now_ns = 10**9

    def perf_ns(self):
        return self.now_ns

    def to_unix(self, perf_ns):
        return perf_ns + 10**18


@pytest.fixture
def clock():
    return FakeClock()


@pytest.fixture
def swallowed():
    """Errors that the guard swallowed; a test that expects none asserts that it is empty."""
    seen = []
    guard.witness = lambda place, error: seen.append((place, error))
    yield seen
    guard.witness = None
