"""What a comparison says: the answer, what it stands on, and what it does not claim."""

import json
from dataclasses import replace

import pytest
from midwatch.model.resource import Resource
from midwatch.model.site import Site
from midwatch.model.trace import Caveat, DeviceFacts, GapFacts, GcFacts, LaunchFacts, TimeFacts
from midwatch_server.diagnosis.diff import compare, diff_document
from midwatch_server.diagnosis.words import between

METRIC = Site("metrics.py", 41, "record", "app.metrics", exact=True, how="sample", callee="item")


def test_a_wait_that_is_gone_is_named_with_what_it_gained(make, side, wait):
    before = side(wall_ms=11.0, waits=(wait(METRIC),))
    after = side(wall_ms=7.9)
    diff = compare(before, after)
    assert len(diff.answer) == 1
    assert diff.answer[0] == (
        "B is 3.1 ms (28 %) faster per request, 7.9 ms instead of 11.0 ms; 2.8 ms of it is the `.item()` wait in "
        "record (metrics.py:41), now gone."
    )
    assert diff.comparability.verdict == "limited"
    assert [remark.code for remark in diff.comparability.remarks] == ["inputs_unknown"]
    assert [(named.status, named.a.kind.value) for named in diff.findings] == [("gone", "hot_sync")]
    assert diff.rest_ms == pytest.approx(-0.3)


def test_the_other_way_round_it_is_new(side, wait):
    diff = compare(side(wall_ms=7.9), side(wall_ms=11.0, waits=(wait(METRIC),)))
    assert diff.answer[0].startswith("B is 3.1 ms (39 %) slower per request")
    assert "the `.item()` wait in record (metrics.py:41), new in B" in diff.answer[0]
    assert diff.findings[0].status == "new"


def test_a_wait_that_hid_behind_device_work_gains_nothing_and_is_not_blamed(side, wait):
    moved = wait(METRIC, recoverable_ms=0.0)
    handed = wait(replace(METRIC, function="reply", line=90), cause="d2h", handover=10, recoverable_ms=0.0)
    diff = compare(side(busy_ms=9.5, waits=(moved,)), side(busy_ms=9.5, waits=(handed,)))
    assert diff.wall.status == "same"
    assert diff.answer[0] == (
        "No difference beyond the spread of the requests: the median request takes 10.0 ms in A and 10.0 ms in B."
    )
    assert "the `.item()` wait in record (metrics.py:41), gone (2.9 ms)" in diff.answer[1]
    assert "the hand-over of the result in reply (metrics.py:90), new (2.9 ms)" in diff.answer[1]
    assert diff.shares == ()


def test_faster_kernels_are_the_cause_not_the_wait_that_shrank_with_them(side, wait, kernels):
    slow = wait(METRIC, per_request_ms=7.0, recoverable_ms=0.0)
    fast = wait(METRIC, per_request_ms=3.0, recoverable_ms=0.0)
    before = side(wall_ms=10.0, busy_ms=8.0, waits=(slow,), kernels=(kernels(total_ms=80.0),))
    after = side(
        wall_ms=6.0,
        busy_ms=4.0,
        waits=(fast,),
        kernels=(kernels(total_ms=40.0, dtype="bfloat16", tensor_cores="yes"),),
    )
    diff = compare(before, after)
    assert diff.answer[0] == (
        "B is 4.0 ms (40 %) faster per request, 6.0 ms instead of 10.0 ms; all of it is matrix products, 8.0 ms in "
        "float32 without tensor cores before, 4.0 ms in bfloat16 on tensor cores now."
    )
    assert [remark.code for remark in diff.changed] == ["precision"]


def test_within_the_spread_no_difference_is_claimed(side):
    diff = compare(side(wall_ms=10.0, jitter=0.2), side(wall_ms=9.6, jitter=0.2))
    assert diff.wall.status == "same"
    assert diff.answer[0].startswith("No difference beyond the spread")


def test_nothing_is_claimed_that_only_the_estimated_cost_of_the_profiler_makes(make, report):
    plain = make.window()
    corrected = replace(plain, window=replace(plain.window, untraced_factor=0.7))
    diff = compare(report(plain), report(corrected))
    assert diff.wall.status == "same"
    assert diff.answer[0] == (
        "No difference that is sure: traced, the medians are 10.0 ms and 10.0 ms, with the estimated cost of the "
        "profiler taken off 10.0 ms and 7.0 ms: whether they differ hangs on that estimate."
    )
    known = tuple(
        replace(one, window=replace(one.window, caveats=(Caveat("untraced_factor", "Known."),)))
        for one in (plain, corrected)
    )
    assert compare(*map(report, known)).wall.status == "less"


def test_a_pause_in_one_request_is_said_beside_the_median(make, report, side):
    facts = list(make.window().requests)
    facts[3] = replace(facts[3], wall_ms=195.0, slowest=True)
    pause = GcFacts(2, 1, 185.0, 185.0, 1, 185.0, explicit=True, site=replace(METRIC, function="sweep"))
    diff = compare(report(replace(make.window(), requests=tuple(facts), gc=(pause,))), side())
    assert diff.wall.status == "same"
    assert any("A has a request that stands out: its slowest takes 195 ms" in text for text in diff.answer)
    assert any(
        "an explicit gc.collect() in sweep (metrics.py:41), gone (185 ms in 10 % of them)" in t for t in diff.answer
    )


def test_a_line_seen_in_a_helper_and_the_function_that_called_it_are_one_thing(side):
    outer = GapFacts("python", 10, 30.0, 3.1, 10, 3.0, 2.8, site=Site("app.py", 0, "handle", how="module"))
    inner = GapFacts(
        "python", 10, 30.0, 3.1, 10, 3.0, 2.8, site=Site("app.py", 13, "rescore", exact=True, how="sample")
    )
    diff = compare(side(gaps=(outer,)), side(gaps=(inner,)))
    assert [(change.label, change.status) for change in diff.changes if change.kind == "gap"] == [
        ("Python in rescore (app.py:13)", "same")
    ]
    assert diff.changed == ()


def test_places_known_on_one_side_only_are_put_together_by_cause(side, wait):
    diff = compare(side(waits=(wait(METRIC),)), side(waits=(wait(None),)))
    waits = [change for change in diff.changes if change.kind == "wait"]
    assert [(change.label, change.status) for change in waits] == [
        ("the wait of a scalar read back (`.item()` or the like)", "same")
    ]


def test_more_than_one_change_is_a_warning(side, wait):
    before = side(wall_ms=11.0, waits=(wait(METRIC),), about={"resource": Resource("a", "reco", "1.4", torch="2.9.0")})
    after = side(wall_ms=7.9, about={"resource": Resource("a", "reco", "1.5", torch="2.11.0")})
    diff = compare(before, after)
    assert [remark.text for remark in diff.changed] == [
        "torch (2.9.0 to 2.11.0)",
        "the version of the service (1.4 to 1.5)",
        "the `.item()` wait in record (metrics.py:41) (gone)",
    ]
    assert diff.answer[-1].startswith(
        "More than one thing changed: torch (2.9.0 to 2.11.0); the version of the service"
    )


def test_without_a_window_there_is_nothing_to_compare(make, side, report):
    spike = replace(report(make.window()), summary=None, spike=make.spike())
    with pytest.raises(ValueError, match="B has no window"):
        compare(side(), spike)


def test_the_document_has_the_keys_of_the_contract(side, wait):
    document = diff_document(compare(side(wall_ms=11.0, waits=(wait(METRIC),)), side(wall_ms=7.9), labels=("a", "b")))
    assert json.loads(json.dumps(document)) == document
    assert set(document) == {
        "schema", "answer", "a", "b", "noun", "comparable", "changed", "request", "slowest", "figures", "unchanged",
        "changes", "accounts_for", "rest_ms", "findings",
    }  # fmt: skip
    assert document["schema"] == "midwatch.diff.v1"
    assert document["a"]["label"] == "a"
    assert document["request"]["delta"] == pytest.approx(-3.1)
    assert document["accounts_for"] == [
        {"kind": "wait", "what": "the `.item()` wait in record (metrics.py:41)", "ms": -2.8}
    ]
    assert "launches" in document["unchanged"]


def on_the_cpu(make, report, wall_ms, *times):
    """A service without a device, with where its time went."""
    plain = make.window(wall_ms=wall_ms, busy_ms=0.0, lanes=("host_ops", "samples"))
    requests = tuple(replace(one, launches=0, kernels=0, op_ms=3.0) for one in plain.requests)
    return report(replace(plain, requests=requests, device=DeviceFacts(), launch=LaunchFacts(), time=times))


def test_without_a_device_the_difference_goes_to_where_the_time_went(make, report):
    ops = TimeFacts("ops", 0.3, 3.0)
    before = on_the_cpu(
        make, report, 10.0, ops, TimeFacts("blocked", 0.7, 7.0, 40, site=replace(METRIC, callee="write"))
    )
    after = on_the_cpu(make, report, 3.5, ops, TimeFacts("python", 0.1, 0.5, 9, site=METRIC))
    diff = compare(before, after)
    assert diff.answer[0] == (
        "B is 6.5 ms (65 %) faster per request, 3.5 ms instead of 10.0 ms; all of it is blocking calls in record "
        "(metrics.py:41), now gone."
    )
    assert {change.kind for change in diff.changes} == {"time"}
    assert next(change for change in diff.changes if change.label == "operators").status == "same"


def test_without_samples_the_operators_account_for_it(make, report):
    before, after = on_the_cpu(make, report, 10.0), on_the_cpu(make, report, 7.6)
    faster = tuple(replace(one, op_ms=0.6) for one in after.summary.requests)
    diff = compare(before, replace(after, summary=replace(after.summary, requests=faster)))
    assert diff.shares[0].change.label == "operators"
    assert diff.shares[0].ms == pytest.approx(-2.4)


def statuses(diff):
    return {figure.key: figure.status for figure in diff.figures}


def test_beside_a_request_a_hundred_times_as_long_what_changed_in_the_short_one_is_still_said(side):
    """Its device idles 2.5 of 2.9 ms, that of the other 0.7 of 273 ms: 1.8 ms are nothing in the long one alone."""
    short = side(wall_ms=2.9, busy_ms=0.4, host_ms=2.9)
    long = side(wall_ms=273.0, busy_ms=272.3, host_ms=6.5, jitter=0.0001)
    forth, back = compare(short, long), compare(long, short)
    assert (statuses(forth)["device_idle_ms"], statuses(back)["device_idle_ms"]) == ("less", "more")
    assert statuses(forth)["kernels"] == "same"


def test_the_host_s_time_is_shown_as_traced_where_its_cost_hides_behind_the_device(make, report, side):
    """There the request takes as long without the profiler; that its host does, too, is not known."""
    plain = make.window(busy_ms=1.0, host_ms=9.5)
    slowed = replace(
        plain, window=replace(plain.window, untraced_factor=0.5, caveats=(Caveat("untraced_factor", "."),))
    )
    host = {figure.key: figure for figure in compare(report(slowed), side(busy_ms=9.0, host_ms=9.5)).figures}[
        "host_busy_ms"
    ]
    assert (host.label, host.a.median, host.b.median, host.status) == ("host busy, traced", 9.5, 9.5, "same")
    host = {figure.key: figure for figure in compare(report(slowed), side(busy_ms=1.0, host_ms=9.5)).figures}[
        "host_busy_ms"
    ]
    assert (host.label, host.a.median, host.b.median) == ("host busy, untraced", 4.75, 9.5)


def test_a_cost_of_the_profiler_that_was_judged_to_be_nothing_casts_no_doubt(make, report):
    plain = make.window()
    known = replace(plain, window=replace(plain.window, untraced_factor=0.5, caveats=(Caveat("untraced_factor", "."),)))
    hardly, unknown = (replace(plain, window=replace(plain.window, untraced_factor=one)) for one in (0.999, 1.0))
    assert compare(report(known), report(hardly)).wall.status == "more"
    assert compare(report(known), report(unknown)).wall.status == "same"


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [(273.2, 273.4, "273 ms"), (2.9, 3.2, "2.9 to 3.2 ms"), (0.004, 0.02, "4.0 us to 0.02 ms")],
)
def test_a_range_has_its_unit_once_and_no_ends_that_are_alike(low, high, said):
    assert between(low, high) == said
