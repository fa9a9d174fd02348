"""What is worth a finding: what recurs and costs something, or what makes its request stand out."""

import dataclasses

import pytest
from midwatch.model.finding import Verdict
from midwatch.model.trace import AllocFacts, GapFacts, GcFacts, LockFacts
from midwatch_server.diagnosis import Evidence, diagnose
from midwatch_server.diagnosis.worth import FLOOR_MS, floor_ms


def judge(summary):
    return diagnose(Evidence(summary=summary))


def gap(make, cost, affected, **more):
    return GapFacts("python", affected, cost * affected, cost, affected, cost, cost, site=make.RANK, **more)


def several(make, *routes):
    """One window of several routes: their name, the wall time of a request, and how many."""
    summary = make.window()
    requests = []
    for name, wall_ms, many in routes:
        for _ in range(many):
            requests.append(
                dataclasses.replace(summary.requests[0], route=name, wall_ms=wall_ms, start_ms=len(requests) * 1000.0)
            )
    window = dataclasses.replace(summary.window, requests=len(requests), duration_ms=len(requests) * 1000.0)
    return dataclasses.replace(summary, requests=tuple(requests), window=window)


def test_the_floor_is_a_twentieth_but_never_next_to_nothing():
    assert floor_ms(100.0) == 5.0
    assert floor_ms(1.0) == FLOOR_MS


@pytest.mark.parametrize(
    ("wall_ms", "cost", "affected", "named"),
    [
        (4.5, 0.33, 11, False),  # the first allocations of a service without a fault: 0.12 ms a request
        (4.5, 0.33, 31, True),
        (4.5, 0.28, 3, False),
        (10.0, 0.45, 31, False),  # under a twentieth
        (1.0, 0.15, 31, False),  # under the floor
        (1.0, 0.3, 31, True),
    ],
)
def test_a_cause_is_weighed_over_all_requests(make, wall_ms, cost, affected, named):
    allocs = (AllocFacts("cudaMalloc", affected, cost * affected, affected),)
    diagnosis = judge(make.window(wall_ms=wall_ms, busy_ms=0.9 * wall_ms, requests=31, allocs=allocs))
    assert bool(diagnosis.findings) is named
    assert len(diagnosis.notes) == (not named)
    assert (diagnosis.verdict is Verdict.CLEAN) is not named


def test_one_of_several_requests_does_not_recur(make):
    for affected, named in ((1, False), (2, True)):
        diagnosis = judge(make.window(requests=4, gaps=(gap(make, 4.0, affected, starts_ms=(1.0,)),)))
        assert bool(diagnosis.findings) is named
    assert judge(make.window(requests=1, gaps=(gap(make, 4.0, 1, starts_ms=(1.0,)),))).findings


@pytest.mark.parametrize(("cost", "times", "named"), [(2.0, 1, False), (2.0, 2, True), (6.0, 1, True)])
def test_a_stall_that_requests_of_one_batch_share_happened_once(make, cost, times, named):
    shared = dataclasses.replace(gap(make, cost, 4, starts_ms=(1.0,)), count=times)
    assert bool(judge(make.window(gaps=(shared,))).findings) is named


def test_the_one_request_of_its_route_does_not_recur_in_a_window_of_many(make):
    summary = several(make, ("POST /rank", 9.0, 1), ("GET /views", 0.3, 19))
    assert judge(dataclasses.replace(summary, gaps=(gap(make, 1.6, 1, starts_ms=(0.5,)),))).findings == ()


def test_a_stall_that_any_thread_may_have_is_no_cause_however_short_the_request(make):
    summary = several(make, ("GET /views", 0.3, 9), ("GET /views", 4.0, 1))
    assert judge(dataclasses.replace(summary, gaps=(gap(make, 3.7, 1, starts_ms=(9000.5,)),))).findings == ()


@pytest.mark.parametrize(
    ("host", "cost", "affected", "named"),
    [
        ("python", 12.0, 1, False),  # a thread that waited for its turn stands at some line, too
        ("python", 30.0, 1, True),
        ("python", 12.0, 3, True),
        ("blocked", 12.0, 1, True),  # the call takes as long as it takes
    ],
)
def test_python_that_stood_still_once_may_have_waited_for_its_turn(make, host, cost, affected, named):
    summary = several(make, ("POST /rank", 4.0, 11 - affected), ("POST /rank", 4.0 + cost, affected))
    starts = tuple((11 - affected + number) * 1000.0 + 1.0 for number in range(affected))
    stall = dataclasses.replace(gap(make, cost, affected, starts_ms=starts), host=host)
    diagnosis = judge(dataclasses.replace(summary, gaps=(stall,)))
    assert bool(diagnosis.findings) is named
    assert len(diagnosis.notes) == (not named)


def test_a_request_stands_out_among_those_of_its_own_route(make):
    """2.7 ms more is little for POST /rank, although GET /views are done in a tenth of that."""
    summary = several(make, ("POST /rank", 9.0, 7), ("POST /rank", 16.0, 1), ("GET /views", 0.3, 400))
    hiccup = gap(make, 7.0, 1, starts_ms=(7000.5,))
    assert judge(dataclasses.replace(summary, gaps=(hiccup,))).findings == ()
    summary = several(make, ("POST /rank", 9.0, 8), ("GET /views", 0.3, 9), ("GET /views", 8.0, 1))
    hiccup = dataclasses.replace(gap(make, 7.0, 1, starts_ms=(17_000.5,)), host="blocked")
    (finding,) = judge(dataclasses.replace(summary, gaps=(hiccup,))).findings
    assert (finding.route, finding.share_of_request) == ("GET /views", 7.0 / 8.0)


def test_a_moment_rounded_down_still_belongs_to_the_request_that_it_opens(make):
    summary = several(make, ("POST /rank", 9.0, 8), ("POST /clicks", 0.2, 9), ("POST /clicks", 101.2, 1))
    requests = (*summary.requests[:-1], dataclasses.replace(summary.requests[-1], start_ms=17_000.4556))
    blocked = dataclasses.replace(gap(make, 101.0, 1, starts_ms=(17_000.455,)), host="blocked")
    (finding,) = judge(dataclasses.replace(summary, requests=requests, gaps=(blocked,))).findings
    assert (finding.route, finding.recoverable_ms) == ("POST /clicks", 101.0)


def test_collections_and_locks_belong_to_the_route_that_they_hit(make):
    summary = several(make, ("POST /rank", 9.0, 8), ("GET /items", 0.3, 9), ("GET /items", 160.0, 1))
    requests = (*summary.requests[:-1], dataclasses.replace(summary.requests[-1], gc_ms=159.0))
    pause = GcFacts(2, 1, 159.0, 159.0, 1, 159.0, explicit=True, site=make.RANK, starts_ms=(17_000.1,))
    wait = LockFacts("Lock RANKS", 1, 150.0, 1, 150.0, waiter=make.RANK, starts_ms=(17_000.2,))
    first, second = judge(dataclasses.replace(summary, requests=requests, gc=(pause,), locks=(wait,))).findings
    assert (first.route, second.route) == ("GET /items", "GET /items")
    assert "in 1 of 10 requests of GET /items" in first.title
    assert "in 1 of 10 requests of GET /items" in second.title
    assert second.share_of_request == 150.0 / 160.0
    assert first.evidence[-1].endswith("; look at 17000.100 ms of the window")
