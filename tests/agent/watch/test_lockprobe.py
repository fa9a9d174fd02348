"""The lock that a thread waits for, and who holds it, in real threads."""

import gc
import sys
import threading
import weakref

import pytest
from midwatch.watch.lockprobe import LockProbe

RANKS_LOCK = threading.Lock()
REENTRANT = threading.RLock()


class Cache:
    shared = threading.Lock()

    def __init__(self):
        self._lock = threading.Lock()
        self.condition = threading.Condition()
        self.inner = None

    @property
    def trap(self):
        raise AssertionError("the probe ran a property of the host's")


class Slotted:
    __slots__ = ("lock",)

    def __init__(self):
        self.lock = threading.Lock()


class Evil(Cache):
    def __getattribute__(self, name):
        if threading.current_thread() is threading.main_thread():
            raise AssertionError("the probe ran __getattribute__ of the host's")
        return object.__getattribute__(self, name)

    @property
    def __class__(self):
        if threading.current_thread() is threading.main_thread():
            raise AssertionError("the probe asked for __class__")
        return Cache


def hold_with(cache, ready, done):
    with cache._lock:
        ready.set()
        done.wait()


def hold_with_in_a_try_in_a_loop(cache, ready, done):
    while ready is not None:
        try:
            with cache._lock as _, memoryview(b""):
                try:
                    ready.set()
                    done.wait()
                finally:
                    ready = None
        except ValueError:  # noqa: PERF203
            return


def hold_by_acquire(cache, ready, done):
    cache._lock.acquire()
    try:
        ready.set()
        done.wait()
    finally:
        cache._lock.release()


def hold_by_conditional_acquire(cache, ready, done):
    if not cache._lock.acquire(timeout=1):
        return
    ready.set()
    done.wait()
    cache._lock.release()


def hold_deeper(cache, ready, done):
    def leaf():
        ready.set()
        done.wait()

    with cache._lock:
        [leaf() for _ in range(1)]


def take(cache):
    cache._lock.acquire()


def wait_with(cache):
    with cache._lock:
        pass


def wait_acquire(cache):
    cache._lock.acquire(timeout=60)
    cache._lock.release()


HOLDERS = [
    hold_with,
    hold_with_in_a_try_in_a_loop,
    hold_by_acquire,
    hold_by_conditional_acquire,
    hold_deeper,
]


@pytest.mark.parametrize("wait", [wait_with, wait_acquire])
@pytest.mark.parametrize("hold", HOLDERS, ids=lambda f: f.__name__)
def test_a_plain_lock_and_the_thread_that_stands_in_its_body(stage, hold, wait):
    cache, ready = Cache(), threading.Event()
    holder = stage.start(hold, cache, ready, stage.done)
    ready.wait()
    waiter = stage.start(wait, cache)
    stage.standing(waiter, wait.__name__, "__enter__" if wait is wait_with else "acquire")
    sighting = LockProbe().probe(waiter.ident, sys._current_frames())
    assert sighting == ("Lock cache._lock", holder.ident)


def test_threads_that_had_the_lock_or_did_not_get_it_hold_nothing(stage):
    cache, past, failed = Cache(), threading.Event(), threading.Event()
    cache.inner = Cache()

    def had_it():
        with cache._lock:
            pass
        cache._lock.acquire()
        cache._lock.release()
        past.set()
        stage.done.wait()

    def other_lock():
        with cache.inner._lock:
            failed.set()
            stage.done.wait()

    stage.start(had_it)
    past.wait()
    take(cache)

    def did_not_get_it():
        if cache._lock.acquire(timeout=0):
            cache._lock.release()
        else:
            failed.wait()
            stage.done.wait()

    stage.start(did_not_get_it)
    stage.start(other_lock)
    failed.wait()
    waiter = stage.start(wait_with, cache)
    stage.standing(waiter, "wait_with", "__enter__")
    try:
        assert LockProbe().probe(waiter.ident, sys._current_frames()) == ("Lock cache._lock", 0)
    finally:
        cache._lock.release()


@pytest.mark.parametrize("shape", ["global", "class", "slot", "closure", "module", "chain"])
def test_names_of_locks(stage, shape):
    cache, slotted, here = Cache(), Slotted(), sys.modules[__name__]
    cache.inner = Cache()
    closed = threading.Lock()
    lock, body, name = {
        "global": (RANKS_LOCK, "with RANKS_LOCK: pass", "Lock RANKS_LOCK"),
        "class": (Cache.shared, "with cache.shared: pass", "Lock cache.shared"),
        "slot": (slotted.lock, "slotted.lock.acquire(); slotted.lock.release()", "Lock slotted.lock"),
        "closure": (closed, "(lambda: closed.acquire() and closed.release())()", "Lock closed"),
        "module": (RANKS_LOCK, "with here.RANKS_LOCK: pass", "Lock here.RANKS_LOCK"),
        "chain": (cache.inner._lock, "with cache.inner._lock: pass", "Lock cache.inner._lock"),
    }[shape]
    namespace = {"RANKS_LOCK": RANKS_LOCK}
    exec(f"def wait(cache, slotted, closed, here):\n    {body}", namespace)
    with lock:
        waiter = stage.start(namespace["wait"], cache, slotted, closed, here)
        sighting = stage.until(lambda: LockProbe().probe(waiter.ident, sys._current_frames()))
        assert sighting.lock == name


@pytest.mark.parametrize("kind", ["RLock", "Condition", "python RLock"])
def test_locks_that_know_their_owner(stage, kind):
    lock = {"RLock": threading.RLock, "Condition": threading.Condition, "python RLock": threading._PyRLock}[kind]()
    ready = threading.Event()

    def hold():
        lock.__enter__()
        ready.set()
        stage.done.wait()
        lock.__exit__(None, None, None)

    def wait():
        with lock:
            pass

    holder = stage.start(hold)
    ready.wait()
    waiter = stage.start(wait)
    sighting = stage.until(lambda: LockProbe().probe(waiter.ident, sys._current_frames()))
    assert sighting == (f"{kind.split()[-1]} lock", holder.ident)


def test_a_thread_inside_condition_wait_does_not_hold_it(stage):
    condition = threading.Condition(threading.Lock())
    inside, holding = threading.Event(), threading.Event()

    def sleep_in_it():
        with condition:
            inside.set()
            condition.wait()

    def hold_it():
        with condition:
            holding.set()
            stage.done.wait()
            condition.notify_all()

    def wait():
        with condition:
            pass

    sleeper = stage.start(sleep_in_it)
    inside.wait()
    stage.standing(sleeper, "wait", "acquire")
    assert LockProbe().probe(sleeper.ident, sys._current_frames()) is None
    holder = stage.start(hold_it)
    holding.wait()
    waiter = stage.start(wait)
    sighting = stage.until(lambda: LockProbe().probe(waiter.ident, sys._current_frames()))
    assert sighting == ("Condition condition", holder.ident)


def test_no_code_of_the_host_runs(stage):
    evil = Evil()
    lock = object.__getattribute__(evil, "_lock")

    def trapped():
        stage.until(lambda: stage.done.is_set() or evil.trap.acquire())

    def wait():
        evil._lock.acquire()
        evil._lock.release()

    with lock:
        waiter = stage.start(wait)
        sighting = stage.until(lambda: LockProbe().probe(waiter.ident, sys._current_frames()))
    assert sighting == ("Lock evil._lock", threading.get_ident())


def test_what_is_no_lock_is_no_wait(stage):
    class Gate:
        def __enter__(self):
            stage.done.wait()

        def __exit__(self, *exc):
            pass

        def acquire(self):
            stage.done.wait()

    gates = [Gate(), threading.Semaphore(0), threading.Event()]

    def enter():
        with gates[0]:
            pass

    threads = [stage.start(enter), stage.start(gates[0].acquire), stage.start(gates[1].acquire)]
    for thread in threads:
        stage.standing(thread, "wait", "acquire")
        assert LockProbe().probe(thread.ident, sys._current_frames()) is None
    gates[1].release()


def test_nothing_of_the_host_is_kept(stage):
    class Payload:
        pass

    cache, ready, seen = Cache(), threading.Event(), []

    def wait():
        payload = Payload()
        seen.append(weakref.ref(payload))
        ready.set()
        with cache._lock:
            pass

    probe = LockProbe()
    with cache._lock:
        waiter = stage.start(wait)
        ready.wait()
        stage.until(lambda: probe.probe(waiter.ident, sys._current_frames()))
    waiter.join(20)
    gc.collect()
    assert seen[0]() is None
