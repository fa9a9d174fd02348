"""Which stacks explain nothing: from real threads that wait, and from made frames for what a test cannot start."""

import asyncio
import concurrent.futures
import contextlib
import queue
import selectors
import socket
import sys
import threading
import time

import pytest
from midwatch.model.idle import is_idle, waits_for
from midwatch.model.site import Frame
from midwatch.watch.stacks import Stacks


def wait_condition(done):
    condition = threading.Condition()
    with condition:
        condition.wait_for(done.is_set, timeout=0.05)
        while not done.is_set():
            condition.wait(0.05)


def wait_queue(done):
    work = queue.Queue()
    while not done.is_set():
        with contextlib.suppress(queue.Empty):
            work.get(timeout=0.05)


def wait_select(done):
    left, right = socket.socketpair()
    with left, right, selectors.DefaultSelector() as selector:
        selector.register(left, selectors.EVENT_READ)
        while not done.is_set():
            selector.select(0.05)


def wait_loop(done):
    async def main():
        await asyncio.get_running_loop().run_in_executor(None, done.wait)

    asyncio.run(main())


def wait_join(done):
    other = threading.Thread(target=done.wait)
    other.start()
    other.join()


def wait_future(done):
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        pool.submit(done.wait).result()


WAITS = [
    (wait_condition, "thread"),
    (lambda done: done.wait(), "thread"),
    (wait_queue, "thread"),
    (wait_select, "events"),
    (wait_loop, "events"),
    (wait_join, "thread"),
    (wait_future, "thread"),
]


@pytest.mark.parametrize(("wait", "what"), WAITS, ids=lambda value: getattr(value, "__name__", value))
def test_threads_that_wait_for_work_or_another_thread(stage, wait, what):
    stacks = Stacks()
    thread = stage.start(wait, stage.done)
    stage.until(lambda: waits_for(stacks.look(sys._current_frames().get(thread.ident))) == what)


def test_a_pool_worker_without_work(stage):
    stacks = Stacks()
    with concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="pool") as pool:
        pool.submit(int).result(20)
        worker = next(t for t in threading.enumerate() if t.name.startswith("pool"))
        stage.until(lambda: waits_for(stacks.look(sys._current_frames()[worker.ident])) == "work")


def test_what_holds_a_request_is_not_idle(stage):
    stacks, lock = Stacks(), threading.Lock()

    def sleep():
        while not stage.done.is_set():
            time.sleep(0.01)

    def wait_lock():
        with lock:
            pass

    def enter_condition():
        with condition:
            pass

    condition = threading.Condition(threading.Lock())
    with lock, condition:
        threads = [stage.start(f) for f in (sleep, wait_lock, enter_condition)]
        for thread, callee in zip(threads, ("sleep", "__enter__", "__enter__"), strict=True):

            def there(thread=thread, callee=callee):
                frames = stacks.look(sys._current_frames().get(thread.ident))
                return frames and frames[0].callee == callee and not is_idle(frames)

            stage.until(there)


@pytest.mark.parametrize(
    ("frame", "what"),
    [
        (Frame("asyncio/runners.py", 118, "Runner.run", "asyncio.runners", "run_until_complete"), "events"),
        (Frame("serve.py", 9, "main", "__main__", "run_forever"), "events"),
        (Frame("asyncio/base_events.py", 600, "BaseEventLoop.run_until_complete", "asyncio.base_events", ""), ""),
        (Frame("socket.py", 294, "socket.accept", "socket", "_accept"), "connection"),
        (Frame("multiprocessing/connection.py", 379, "_recv", "multiprocessing.connection", "read"), "process"),
        (Frame("grpc/_server.py", 1200, "_serve", "grpc._server", "poll"), "events"),
        (Frame("app.py", 3, "wait", "app", "item"), ""),
        (Frame("app.py", 3, "rank", "app", "select"), ""),
    ],
)
def test_by_name(frame, what):
    assert waits_for((frame,)) == what


def test_no_frames_are_not_idle():
    assert not is_idle(())
