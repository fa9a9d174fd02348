"""A clock to turn by hand, a guard that hides nothing that a sensor under test does wrong, a lack of descriptors."""

import os
import resource
from contextlib import contextmanager

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


@pytest.fixture
def no_descriptors():
    """Gives a block in which this process can open nothing."""

    @contextmanager
    def exhausted():
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        lowest_free = os.dup(0)
        os.close(lowest_free)
        resource.setrlimit(resource.RLIMIT_NOFILE, (lowest_free, hard))
        try:
            yield
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    return exhausted
