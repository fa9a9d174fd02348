"""Whether two captures may be held against each other."""

from dataclasses import replace

import pytest
from midwatch.model.resource import Resource
from midwatch.model.trace import Caveat, OpFacts
from midwatch_server.diagnosis.diff import compare

SMALL = (OpFacts("aten::mm", 10, 5.0, ("f32[64,64] x f32[64,64]",)),)
LARGE = (OpFacts("aten::mm", 10, 50.0, ("f32[4096,4096] x f32[4096,4096]",)),)


def changed(report, **fields):
    """The report with other fields in its summary."""
    return replace(report, summary=replace(report.summary, **fields))


def codes(diff):
    return [remark.code for remark in diff.comparability.remarks]


def test_the_same_twice_is_comparable(side):
    diff = compare(side(ops=SMALL), side(ops=SMALL))
    assert (diff.comparability.verdict, codes(diff)) == ("comparable", [])


def test_other_shapes_are_other_work_and_nobody_is_faster(side):
    diff = compare(side(wall_ms=1.0, busy_ms=0.1, ops=SMALL), side(wall_ms=9.0, busy_ms=8.0, ops=LARGE))
    assert diff.comparability.verdict == "not_comparable"
    assert diff.answer[0] == (
        "Not like for like, so neither is faster: the shapes differ: aten::mm works on f32[64,64] x f32[64,64] in A, "
        "on f32[4096,4096] x f32[4096,4096] in B."
    )
    assert diff.answer[1].startswith("The median request takes 1.0 ms")
    assert "inputs" in [remark.code for remark in diff.changed]


def test_noted_inputs_come_before_shapes_of_operators(side):
    reports = [
        changed(one, requests=tuple(replace(facts, workload=inputs) for facts in one.summary.requests))
        for one, inputs in ((side(), "float32[8,128]@cuda:0"), (side(), "float32[64,128]@cuda:0"))
    ]
    diff = compare(*reports)
    assert codes(diff) == ["inputs"]
    assert "float32[8,128]@cuda:0 in A, float32[64,128]@cuda:0 in B" in diff.answer[0]


def test_only_requests_of_a_route_that_both_serve_are_compared(make, side):
    mixed = side(ops=SMALL)
    slow = tuple(replace(facts, route="/report", wall_ms=400.0, slowest=False) for facts in mixed.summary.requests)
    diff = compare(changed(mixed, requests=(*mixed.summary.requests, *slow)), side(ops=SMALL))
    assert (diff.a.route, diff.b.route) == ("/rank", "/rank")
    assert diff.wall.a.median == pytest.approx(10.0, rel=0.01)
    assert codes(diff) == ["routes"]


def test_routes_that_have_nothing_in_common(side):
    other = side(ops=SMALL)
    renamed = changed(other, requests=tuple(replace(facts, route="/embed") for facts in other.summary.requests))
    diff = compare(side(ops=SMALL), renamed)
    assert codes(diff) == ["route"]
    assert "A serves /rank, B serves /embed" in diff.answer[0]


@pytest.mark.parametrize(
    ("basis", "code"), [("window", "basis"), ("step", "basis"), ("ledger", "")], ids=["window", "step", "ledger"]
)
def test_figures_per_what(side, basis, code):
    other = side(ops=SMALL)
    diff = compare(side(ops=SMALL), changed(other, window=replace(other.summary.window, basis=basis)))
    assert codes(diff) == ([code] if code else [])


def test_whole_windows_must_hold_as_much_work(side):
    def whole(kernels):
        one = side(ops=SMALL)
        return changed(
            one,
            window=replace(one.summary.window, basis="window"),
            device=replace(one.summary.device, kernels=kernels, launches=kernels),
        )

    assert codes(compare(whole(400), whole(600)))[0] == "amount"
    assert codes(compare(whole(400), whole(410))) == ["no_requests"]


def test_what_was_not_recorded_alike_is_said(side):
    lanes = ("host_ops", "runtime", "device")
    deep = side(ops=SMALL, lanes=lanes)
    deep = changed(deep, requests=tuple(replace(facts, op_ms=6.0) for facts in deep.summary.requests))
    diff = compare(deep, side(ops=SMALL, lanes=("runtime", "device", "samples")))
    assert diff.comparability.verdict == "limited"
    assert "operators only in A, stack samples only in B" in diff.comparability.remarks[0].text
    assert next(figure for figure in diff.figures if figure.key == "operators_ms").status == "unknown"


def test_a_lane_that_is_missing_is_no_difference(side):
    other = side(ops=SMALL)
    blind = changed(other, device=replace(other.summary.device, kernels=0, busy_ms=0.0))
    diff = compare(side(ops=SMALL), blind)
    assert "device_lane_missing" in codes(diff)
    busy = next(figure for figure in diff.figures if figure.key == "device_busy_ms")
    assert (busy.b, busy.status) == (None, "unknown")
    assert not any(change.on_device for change in diff.changes)


def test_a_file_that_ends_in_the_middle_is_not_compared(side):
    other = side(ops=SMALL)
    cut = changed(other, window=replace(other.summary.window, caveats=(Caveat("truncated", "Cut."),)))
    assert compare(side(ops=SMALL), cut).comparability.verdict == "not_comparable"


def test_few_requests_and_other_services(side):
    diff = compare(
        side(requests=1, ops=SMALL, about={"resource": Resource("a", "reco")}),
        side(ops=SMALL, about={"resource": Resource("b", "rank")}),
    )
    assert codes(diff) == ["service", "few_requests"]


def test_other_devices_are_a_change(side):
    other = side(ops=SMALL)
    diff = compare(side(ops=SMALL), changed(other, device=replace(other.summary.device, names=("NVIDIA L4",))))
    assert [remark.text for remark in diff.changed] == ["the device (NVIDIA H200 to NVIDIA L4)"]
    assert diff.comparability.verdict == "comparable"
