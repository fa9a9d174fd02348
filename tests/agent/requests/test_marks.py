import asyncio
import contextvars
import inspect
import threading

import pytest
from midwatch import note, request, step
from midwatch.drops import drops
from midwatch.requests.tracker import install


def served(tracker):
    return [(mark.route.name, mark.status) for mark in tracker.drain()]


def test_with(tracker):
    with request("rank"):
        assert tracker.count() == 1
    assert served(tracker) == [("rank", "ok")]


async def test_async_with(tracker):
    async with request("rank"):
        assert tracker.current().is_async
        await asyncio.sleep(0)
    assert served(tracker) == [("rank", "ok")]


async def test_a_plain_with_inside_a_coroutine_is_asynchronous(tracker):
    with request("rank"):
        assert tracker.current().is_async
    assert served(tracker) == [("rank", "ok")]


def test_an_error_passes_on_and_is_told(tracker):
    with pytest.raises(ZeroDivisionError), request("rank"):
        _ = 1 / 0
    assert served(tracker) == [("rank", "error")]


async def test_a_cancelled_task_is_told_as_cancelled(tracker):
    began = asyncio.Event()

    async def serve():
        async with request("rank"):
            began.set()
            await asyncio.sleep(60)

    task = asyncio.create_task(serve())
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert served(tracker) == [("rank", "cancelled")]


def test_one_mark_serves_many_threads(tracker):
    mark = request("rank")
    barrier = threading.Barrier(4)

    def serve():
        for _ in range(50):
            with mark:
                barrier.wait(10)

    threads = [threading.Thread(target=serve) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert served(tracker) == [("rank", "ok")] * 200
    assert tracker.count() == 0


async def test_one_mark_serves_many_tasks_that_end_in_any_order(tracker):
    mark = request("rank")
    order = [asyncio.Event() for _ in range(3)]

    async def serve(mine):
        async with mark:
            await order[mine].wait()

    tasks = [asyncio.create_task(serve(number)) for number in range(3)]
    await asyncio.sleep(0)
    assert tracker.count() == 3
    for number in (1, 0, 2):
        order[number].set()
        await tasks[number]
    assert tracker.count() == 0
    assert [mark.request_id for mark in tracker.drain()] == [2, 1, 3]


def test_a_mark_entered_again_inside_of_itself_ends_with_the_outer(tracker):
    mark = request("rank")
    with mark:
        with mark:
            pass
        assert tracker.count() == 1
    assert served(tracker) == [("rank", "ok")]


def test_decorated_functions_stay_what_they_are(tracker):
    @request("plain")
    def plain(x, *, y=1):
        """Doc."""
        return x + y

    @request("coroutine")
    async def coroutine(x):
        return x

    @request
    def bare():
        return 7

    assert plain(1, y=2) == 3
    assert plain.__doc__ == "Doc."
    assert inspect.iscoroutinefunction(coroutine)
    assert asyncio.run(coroutine(5)) == 5
    assert bare() == 7
    assert [name.rsplit(".", 1)[-1] for name, _ in served(tracker)] == ["plain", "coroutine", "bare"]


def test_a_generators_request_lasts_until_it_is_exhausted_and_its_callers_do_not_belong_to_it(tracker, clock):
    @request("stream")
    def stream():
        sent = []
        for number in range(3):
            assert tracker.current() is not None
            clock.advance(0.01)
            sent.append((yield number))
        return sent

    def caller():
        generator = stream()
        assert next(generator) == 0
        assert tracker.current() is None
        assert generator.send("a") == 1
        with request("other"):
            pass
        result = yield from generator
        results.append(result)

    results = []
    assert list(caller()) == [2]
    assert results == [["a", None, None]]
    marks = tracker.drain()
    assert [mark.route.name for mark in marks] == ["other", "stream"]
    assert marks[1].end_ns - marks[1].start_ns == 30_000_000


def test_a_generator_that_is_closed_or_fails_ends_its_request(tracker):
    closed = []

    @request("stream")
    def stream():
        try:
            yield 1
            raise KeyError("lost")
        finally:
            closed.append(True)

    generator = stream()
    next(generator)
    generator.close()
    failing = stream()
    next(failing)
    with pytest.raises(KeyError):
        next(failing)
    thrown = stream()
    next(thrown)
    with pytest.raises(LookupError):
        thrown.throw(LookupError())
    assert closed == [True] * 3
    assert served(tracker) == [("stream", "ok"), ("stream", "error"), ("stream", "error")]


async def test_an_asynchronous_generator_likewise(tracker):
    @request("stream")
    async def stream():
        got = yield 1
        assert tracker.current() is not None
        yield got

    generator = stream()
    assert await generator.__anext__() == 1
    assert tracker.current() is None
    assert await generator.asend("a") == "a"
    await generator.aclose()
    assert [item async for item in stream()] == [1, None]
    assert served(tracker) == [("stream", "ok")] * 2


def test_a_request_that_ends_in_another_context_is_ended(tracker):
    mark = request("rank")
    contextvars.copy_context().run(mark.__enter__)
    assert tracker.current() is None
    mark.__exit__(None, None, None)
    assert served(tracker) == [("rank", "ok")]


async def test_a_task_that_outlives_the_request_which_started_it_begins_requests_of_its_own(tracker):
    finish = asyncio.Event()

    async def background():
        await finish.wait()
        with request("background"):
            pass

    with request("rank"):
        task = asyncio.create_task(background())
    finish.set()
    await task
    assert served(tracker) == [("rank", "ok"), ("background", "ok")]


class Unprintable:
    def __str__(self):
        raise AssertionError("this would have waited for the device")

    __repr__ = __str__


def test_notes_are_kept_short_and_few(tracker):
    with request("rank"):
        note(batch=32, text="x" * 1000, loss=Unprintable())
        note(**{f"n{number}": number for number in range(40)})
    note(batch=64)
    (mark,) = tracker.drain()
    notes = mark.extra.notes
    assert (notes["batch"], notes["loss"]) == ("32", "<Unprintable>")
    assert len(notes["text"]) == 64
    assert len(notes) == 16


def test_steps_follow_each_other(tracker, clock):
    for _ in range(3):
        step()
        clock.advance(0.5)
    marks = tracker.drain()
    assert [mark.end_ns - mark.start_ns for mark in marks] == [500_000_000] * 2
    assert {mark.route.name for mark in marks} == {"step"}
    assert tracker.count() == 1


def test_the_last_step_of_a_thread_that_has_ended_is_given_up(tracker):
    before = dict(drops.counts()).get("request_unended", 0)
    thread = threading.Thread(target=step)
    thread.start()
    thread.join()
    assert tracker.count() == 0
    assert served(tracker) == []
    assert dict(drops.counts())["request_unended"] == before + 1


def test_a_step_has_an_open_end_and_other_requests_have_not(tracker):
    with request("rank"):
        pass
    step()
    step()
    assert [(mark.route.name, mark.open_end) for mark in tracker.drain()] == [("rank", False), ("step", True)]


def test_a_step_that_was_given_up_is_not_told_when_the_next_one_comes_after_all(tracker, clock):
    step()
    tracker.forget(tracker.in_flight()[0].request_id)
    assert tracker.count() == 0
    with request("evaluate"):
        clock.advance(60)
    step()
    clock.advance(0.5)
    step()
    assert [(mark.route.name, mark.end_ns - mark.start_ns) for mark in tracker.drain()] == [
        ("evaluate", 60_000_000_000),
        ("step", 500_000_000),
    ]


def test_a_decorated_coroutine_that_is_thrown_away_amid_another_request_ends_its_own(tracker):
    class Forever:
        def __await__(self):
            yield

    @request("thrown")
    async def handler():
        await Forever()

    coroutine = handler()
    contextvars.copy_context().run(coroutine.send, None)
    with request("other"):
        assert tracker.count() == 2
        coroutine.close()
        assert tracker.count() == 1
    assert served(tracker) == [("thrown", "ok"), ("other", "ok")]


def test_requests_that_nobody_ends_do_not_pile_up_without_end(tracker, monkeypatch):
    monkeypatch.setattr("midwatch.requests.tracker._MAX_OPEN", 3)
    before = dict(drops.counts()).get("too_many_in_flight", 0)
    marks = [contextvars.copy_context().run(tracker.begin, "lost") for _ in range(5)]
    assert [mark is not None for mark in marks] == [True] * 3 + [False] * 2
    assert dict(drops.counts())["too_many_in_flight"] == before + 2
    tracker.end(marks[0])
    with request("rank"):
        assert tracker.count() == 3


async def test_everything_is_harmless_where_midwatch_is_off():
    install(None)

    @request("stream")
    def stream():
        yield 1

    with request("rank"):
        note(batch=1)
        step()
    async with request("rank"):
        pass
    assert list(stream()) == [1]


def test_an_error_of_ours_does_not_reach_the_service(tracker, clock, swallowed):
    clock.perf_ns = None
    tracker._perf_ns = None
    with request("rank"):
        reached = True
    assert reached
    assert [place for place, _ in swallowed] == ["request.begin"]
    swallowed.clear()
