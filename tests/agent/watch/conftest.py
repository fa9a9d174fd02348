"""Real threads that stand still where a test wants them, and are gone afterwards."""

import sys
import threading
import time

import pytest
from midwatch.watch.frames import current_frames


class Stage:
    """Starts threads that run until `finish`, and looks at them."""

    def __init__(self):
        self.done = threading.Event()
        self._threads = []

    def start(self, target, *args, name=None):
        thread = threading.Thread(target=target, args=args, name=name, daemon=True)
        thread.start()
        self._threads.append(thread)
        return thread

    def until(self, condition, seconds=20.0):
        """Poll until ``condition()`` is true, and return what it gave."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            value = condition()
            if value:
                return value
            time.sleep(0.002)
        raise AssertionError("the thread never got there")

    def standing(self, thread, function, callee):
        """Wait until the innermost frame of ``thread`` is in ``function`` and calls ``callee``."""
        from midwatch.watch.callee import callee as callee_at

        def there():
            frame = sys._current_frames().get(thread.ident)
            return frame and frame.f_code.co_name == function and callee_at(frame.f_code, frame.f_lasti) == callee

        self.until(there)

    def finish(self):
        self.done.set()
        for thread in self._threads:
            thread.join(20)
            assert not thread.is_alive()


@pytest.fixture
def stage():
    stage = Stage()
    yield stage
    stage.finish()


@pytest.fixture
def own_frames():
    """The frames of this test's threads, without those of threads that earlier tests have left (gRPC's end late).

    The test's own is there too, since a test is host and watchdog in one thread.
    """
    strangers = set(threading.enumerate()) - {threading.current_thread()}

    def frames():
        strange = {thread.ident for thread in strangers if thread.is_alive()}
        others = {ident: frame for ident, frame in current_frames().items() if ident not in strange}
        return others | {threading.get_ident(): sys._getframe()}

    return frames
