"""Where the time of a spike went, each stretch claimed once."""

import dataclasses

import pytest
from midwatch.model.requests import UnitRecord
from midwatch.model.samples import GcPause, LockWait
from midwatch_server.diagnosis.account import account
from midwatch_server.diagnosis.activity import Activity, activity


def test_a_collection_takes_its_time_from_the_line_that_was_sampled_meanwhile(make):
    pause = GcPause(make.START + 100 * make.MS, 300 * make.MS, 2, 10, 1, 1, explicit=False)
    spike = make.spike(500, gc=(pause,), samples=make.samples(100, 500, make.frame("rank")))
    spent = account(spike, spike.baseline)
    assert [claim.ms for claim in spent.collections] == [300.0]
    assert [claim.ms for claim in spent.places] == [100.0]
    assert spent.collections[0].share == pytest.approx(300 / 480)
    assert sum(claim.ms for claim in spent.claims) == 400.0


def test_an_idle_request_is_explained_by_the_thread_of_its_unit(make):
    waits = make.frame("wait", module="threading")
    spike = make.spike(
        500,
        is_async=True,
        samples=(
            *make.samples(100, 500, waits, make.frame("handler"), thread=1),
            *make.samples(100, 500, make.frame("score", 77, "loads"), role="unit", thread=2, name="batcher"),
            *make.samples(100, 500, make.frame("elsewhere"), role="other", thread=3),
        ),
        units=(UnitRecord(1, "Ranker", make.START, 400 * make.MS, thread_id=2),),
    )
    (place,) = account(spike, spike.baseline).places
    assert (place.site.function, place.site.line, place.role, place.thread_name) == ("score", 77, "unit", "batcher")
    assert place.ms == 400.0
    assert place.share == 1.0


def test_the_request_s_own_work_comes_before_that_of_its_unit_s_thread(make):
    spike = make.spike(
        500,
        samples=(
            *make.samples(100, 200, make.frame("handler"), thread=1),
            *make.samples(100, 500, make.frame("score"), role="unit", thread=2),
        ),
        units=(UnitRecord(1, "Ranker", make.START, 400 * make.MS, thread_id=2),),
    )
    places = account(spike, spike.baseline).places
    assert [(claim.site.function, claim.ms) for claim in places] == [("handler", 100.0), ("score", 300.0)]


def test_the_line_is_the_one_that_holds_most_of_the_function_s_time(make):
    spike = make.spike(
        500,
        samples=(
            *make.samples(100, 200, make.frame("rank", 10)),
            *make.samples(200, 450, make.frame("rank", 12)),
        ),
    )
    (place,) = account(spike, spike.baseline).places
    assert (place.site.line, place.ms, place.site.exact) == (12, 350.0, True)


def test_only_locks_of_the_request_s_own_threads_count(make):
    def wait(thread):
        return LockWait(
            make.START + 100 * make.MS, 200 * make.MS, thread, (make.frame("rerank", 88, "acquire"),), "Lock RANKS"
        )

    unit = UnitRecord(1, "Ranker", make.START, 400 * make.MS, thread_id=2)
    mine = make.spike(500, locks=(wait(2), wait(9)), units=(unit,))
    (claim,) = account(mine, mine.baseline).waits
    assert claim.ms == 200.0
    assert {lock.thread_id for lock in claim.locks} == {2}


def test_before_the_first_look_a_place_is_given_no_more_than_two_looks_enclose(make):
    rank, other = make.frame("rank"), make.frame("other")
    looks = (make.sample(64, rank, weight_ms=64), make.sample(74, rank), make.sample(84, rank), make.sample(94, other))
    spike = make.spike(94, samples=looks)
    spent = account(spike, spike.baseline)
    assert [(claim.site.function, claim.ms) for claim in spent.places] == [("rank", 40.0)]
    assert [claim.ms for claim in spent.doubtful] == [54.0]


def test_a_late_look_counts_where_the_one_before_it_found_the_same(make):
    write = make.frame("log", 55, "write")
    looks = (make.sample(50, write), dataclasses.replace(make.sample(350, write, weight_ms=300), late_ns=290 * make.MS))
    spike = make.spike(360, samples=looks)
    spent = account(spike, spike.baseline)
    assert [claim.ms for claim in spent.places] == [310.0]
    assert spent.doubtful == ()


def test_without_a_known_baseline_the_whole_request_is_the_overrun(make):
    spike = make.spike(500, usual_ms=0)
    assert account(spike, spike.baseline).overrun_ms == 500.0
    assert account(spike, spike.baseline).claims == ()


@pytest.mark.parametrize(
    ("frames", "has_device", "expected"),
    [
        ([("metrics", "item", "app.metrics")], True, Activity.SYNC),
        ([("metrics", "item", "app.metrics")], False, Activity.PYTHON),
        ([("__repr__", "tolist", "torch._tensor_str"), ("log", "print", "app.log")], True, Activity.SYNC),
        ([("recv_into", "recv_into", "socket"), ("fetch", "get", "app.features")], True, Activity.BLOCKED),
        ([("save", "fsync", "app.log")], False, Activity.BLOCKED),
        ([("rerank", "acquire", "app.rank")], False, Activity.LOCK),
        ([("forward", "linear", "torch.nn.modules.linear"), ("score", "", "app.rank")], True, Activity.OPERATORS),
        ([("score", "softmax", "app.rank")], False, Activity.OPERATORS),
        ([("tokenise", "append", "app.text")], True, Activity.PYTHON),
        ([("trim", "collect", "app.text")], True, Activity.GC),
        ([("select", "poll", "selectors"), ("serve", "run", "app.serve")], True, Activity.IDLE),
        (
            [("select", "poll", "selectors"), ("communicate", "select", "subprocess"), ("ask", "run", "app.version")],
            False,
            Activity.BLOCKED,
        ),
        ([("_collect", "get", "app.batcher")], True, Activity.IDLE),
    ],
)
def test_what_a_thread_does_is_read_from_the_names_in_its_frames(make, frames, has_device, expected):
    stack = tuple(make.frame(function, 1, callee, module) for function, callee, module in frames)
    assert activity(stack, has_device=has_device) is expected


def test_a_look_that_got_through_where_the_thread_let_go_does_not_claim_what_ran_before_it(make):
    """As seen in a service on a busy machine: 50 ms of plain Python, and 6 ms in the call after it."""
    loop, call = make.frame("penalties", 14), make.frame("penalties", 15, "tensor")
    looks = (
        make.sample(178, loop, role="other", thread=2),
        make.sample(228, call, role="unit", thread=2, weight_ms=50),
        make.sample(235, call, role="unit", thread=2, weight_ms=7),
    )
    unit = UnitRecord(1, "Ranker", make.START, 400 * make.MS, thread_id=2)
    spike = make.spike(500, is_async=True, samples=looks, units=(unit,))
    (place,) = account(spike, spike.baseline).places
    assert (place.site.line, place.ms, place.role) == (14, 57.0, "unit")


def test_a_call_that_let_no_look_through_has_the_time_that_the_look_waited(make):
    """As seen of 40 ms of plain Python, and behind it a sort of 500 ms that one look gets through, at its end."""
    looks = (
        make.sample(110, make.frame("rank", 3), weight_ms=10),
        make.sample(120, make.frame("rank", 3), weight_ms=10),
        make.sample(640, make.frame("rank", 5, "sorted"), weight_ms=520, late_ms=515),
    )
    spike = make.spike(650, samples=looks)
    (place,) = account(spike, spike.baseline).places
    assert (place.site.line, place.site.callee, place.ms) == (5, "sorted", 540.0)


def test_a_look_that_found_a_call_which_takes_no_time_claims_no_line(make):
    looks = (
        make.sample(100, make.frame("rank", 3, "set_result"), weight_ms=80),
        make.sample(180, make.frame("rank", 7, "loads"), weight_ms=80),
        make.sample(190, make.frame("rank", 9, "dumps"), weight_ms=70),
    )
    spike = make.spike(500, samples=looks)
    (place,) = account(spike, spike.baseline).places
    assert place.site.line == 7


def test_of_looks_at_two_calls_each_has_half_of_the_time_between_them(make):
    looks = (
        make.sample(100, make.frame("rank", 10, "dumps"), weight_ms=40),
        make.sample(140, make.frame("rank", 10, "dumps"), weight_ms=40),
        make.sample(190, make.frame("rank", 12, "loads"), weight_ms=50),
        make.sample(200, make.frame("rank", 12, "loads"), weight_ms=10),
    )
    spike = make.spike(500, samples=looks)
    (place,) = account(spike, spike.baseline).places
    assert place.site.line == 10
