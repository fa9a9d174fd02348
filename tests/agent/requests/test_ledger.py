import gc
from dataclasses import dataclass

import pytest
from midwatch.requests.ledger import Ledger, Ring
from midwatch.requests.tracker import Tracker
from midwatch.testing import FakeClock


@dataclass
class Span:
    start_ns: int
    end_ns: int
    name: str = ""
    colour: str = ""


def ring_of(*spans, size=100):
    ring = Ring(Span, (), ("name", "colour"), size)
    for span in spans:
        ring.add(span)
    return ring


def test_spans_that_share_time_are_found():
    spans = [Span(0, 10, "a"), Span(5, 20, "b"), Span(30, 40, "c"), Span(0, 50, "d")]
    assert ring_of(*spans).overlapping(15, 30) == spans[1:]


def test_ends_that_come_a_little_out_of_order_are_found():
    spans = [Span(0, 40), Span(0, 10)]
    assert ring_of(*spans).overlapping(35, 36) == [spans[0]]


def test_the_oldest_go_first():
    ring = ring_of(*(Span(n, n + 1, str(n)) for n in range(12)), size=5)
    assert len(ring) == 5
    assert [span.name for span in ring.overlapping(0, 1000)] == ["7", "8", "9", "10", "11"]


def test_the_latest_is_the_last_of_those_that_share_time():
    spans = [Span(0, 10), Span(5, 20), Span(30, 40)]
    assert ring_of(*spans).latest(15, 25) == spans[1]
    assert ring_of(*spans).latest(15, 35) == spans[2]
    assert ring_of(*spans).latest(21, 29) is None
    assert ring_of().latest(0, 1) is None


@pytest.mark.parametrize("count", [0, 3, 999, 1000, 1001, 2500])
def test_those_within_a_time_are_counted_without_being_made(count):
    ring = ring_of(*(Span(10 * n, 10 * n + 15) for n in range(count)), size=1000)
    for start_ns, end_ns in ((0, 40_000), (17_000, 20_005), (20_000, 20_000), (-50, 10)):
        inside = [s for s in ring.overlapping(start_ns, end_ns) if s.start_ns >= start_ns and s.end_ns <= end_ns]
        assert ring.within(start_ns, end_ns) == len(inside)


def test_a_request_comes_back_as_it_was():
    clock, ledger = FakeClock(), Ledger()
    tracker = Tracker(clock)
    mark = tracker.begin("rank", is_async=True)
    mark.details.trace_id = "4bf9"
    clock.advance(0.002)
    tracker.end(mark, "error")
    ledger.requests.add(*tracker.drain())
    (past,) = ledger.requests.overlapping(mark.start_ns, mark.end_ns)
    for name in ("request_id", "start_ns", "end_ns", "cpu_ns", "gc_ns", "compiles", "in_flight", "route", "status",
                 "is_async", "thread", "workload", "extra"):  # fmt: skip
        assert getattr(past, name) == getattr(mark, name)
    assert (past.status, past.is_async, past.extra.trace_id) == ("error", True, "4bf9")


def test_what_has_ended_and_waits_is_no_object_for_the_collector():
    tracker = Tracker(FakeClock())
    tracker.end(tracker.begin("rank"))
    before = len(gc.get_objects())
    for _ in range(1_000):
        tracker.end(tracker.begin("rank"))
    assert len(gc.get_objects()) - before < 50
    assert tracker.finished() == 1_001


def test_what_has_ended_keeps_no_object_for_the_collector():
    clock, ledger = FakeClock(), Ledger()
    tracker = Tracker(clock)

    def serve(count):
        for _ in range(count):
            tracker.end(tracker.begin("rank"))
            ledger.requests.add(*tracker.drain())

    serve(100)
    before = len(gc.get_objects())
    serve(1_000)
    assert len(gc.get_objects()) - before < 50
