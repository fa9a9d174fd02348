"""Whether two captures can be held against each other at all.

``not_comparable`` is what did different work: other routes, other inputs, a whole window against requests. ``limited``
is what may be compared with a grain of salt: another depth of recording, first calls, few requests, records missing.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterator

from midwatch.model.finding import Kind

from midwatch_server.diagnosis.diff.figures import corrected_away
from midwatch_server.diagnosis.diff.inputs import different_inputs, known_inputs
from midwatch_server.diagnosis.diff.side import Side
from midwatch_server.diagnosis.diff.spread import FEW
from midwatch_server.diagnosis.diff.values import Comparability, Remark
from midwatch_server.diagnosis.words import ms, plural

WARM_UP = (Kind.FIRST_CALL, Kind.RECOMPILE)
HOST_LANES = {"host_ops": "operators", "python": "Python functions", "samples": "stack samples"}
CUT_SHORT = frozenset({"bounded", "sampled"})
AS_MUCH = 0.1
"""Whole windows whose numbers of kernels differ by a larger share of themselves hold other amounts of work."""


def comparability(a: Side, b: Side) -> Comparability:
    """Judge whether ``a`` and ``b`` may be compared."""
    grave = tuple(_grave(a, b))
    light = tuple(_light(a, b))
    verdict = "not_comparable" if grave else "limited" if light else "comparable"
    return Comparability(verdict, (*grave, *light))


def _grave(a: Side, b: Side) -> Iterator[Remark]:
    for name, side in (("A", a), ("B", b)):
        if any(caveat.code == "truncated" for caveat in side.summary.window.caveats):
            yield Remark("truncated", f"the file of {name} ends in the middle, and what is cut off may be a whole lane")
    bases = [side.summary.window.basis for side in (a, b)]
    if bases[0] != bases[1] and "window" in bases:
        marked = "B" if bases[0] == "window" else "A"
        yield Remark("basis", f"{marked} marks requests and the other does not, so figures per request have no twin")
    elif bases[0] != bases[1] and "step" in bases:
        yield Remark("basis", f"the figures of A are per {a.evidence.noun}, those of B per {b.evidence.noun}")
    elif a.route != b.route:
        yield Remark("route", f"no route is in both: A serves {_routes(a)}, B serves {_routes(b)}")
    services = [side.report.resource.service if side.report.resource else "" for side in (a, b)]
    if all(services) and services[0] != services[1]:
        yield Remark("service", f"A is of the service {services[0]}, B of {services[1]}")
    if bases == ["window", "window"]:
        yield from _other_amount(a, b)
    told = different_inputs(a, b)
    if told:
        yield Remark("inputs", told)
    if a.summary.device.present != b.summary.device.present and a.device_known and b.device_known:
        with_, without = ("A", "B") if a.summary.device.present else ("B", "A")
        yield Remark("no_device", f"{with_} has work of a device, {without} has none")


def _other_amount(a: Side, b: Side) -> Iterator[Remark]:
    before, after = a.summary.device.kernels, b.summary.device.kernels
    if abs(after - before) > AS_MUCH * max(before, after):
        kernels = f"{before:,} kernels in A, {after:,} in B"
        yield Remark("amount", f"nothing marks requests, and the windows hold other amounts of work: {kernels}")


def _routes(side: Side) -> str:
    routes = sorted({facts.route for facts in side.summary.requests})
    return ", ".join(routes[:3]) + (", ..." if len(routes) > 3 else "") if routes else "none"


def _light(a: Side, b: Side) -> Iterator[Remark]:
    for name, side in (("A", a), ("B", b)):
        yield from _of_one(name, side)
    if a.summary.window.basis == b.summary.window.basis == "window":
        yield Remark(
            "no_requests", "nothing marks requests in either: whole windows are compared, of whatever is in them"
        )
    missing = [
        f"{HOST_LANES[lane]} only in {'A' if lane in a.summary.window.lanes else 'B'}"
        for lane in HOST_LANES
        if (lane in a.summary.window.lanes) != (lane in b.summary.window.lanes)
    ]
    if missing:
        yield Remark("recorded", f"they were not recorded alike ({', '.join(missing)}), which slows the host unalike")
    if corrected_away(a, b):
        traced = " and ".join(ms(statistics.median(side.traced)) for side in (a, b))
        untraced = " and ".join(ms(statistics.median(side.walls)) for side in (a, b))
        yield Remark(
            "correction",
            f"traced, the medians are {traced}, with the estimated cost of the profiler taken off {untraced}: whether "
            "they differ hangs on that estimate",
        )
    if not (known_inputs(a) and known_inputs(b)):
        yield Remark(
            "inputs_unknown", "shapes of inputs are not known on both sides: whether the work is the same is not known"
        )
    if any(len({facts.route for facts in side.summary.requests}) > 1 for side in (a, b)):
        yield Remark(
            "routes", f"only requests of {a.route} are compared; kernels and copies are of all routes together"
        )


def _of_one(name: str, side: Side) -> Iterator[Remark]:
    if not side.device_known:
        yield Remark("device_lane_missing", f"{name} lacks records of kernels, so nothing is said of its device")
    cut = CUT_SHORT.intersection(caveat.code for caveat in side.summary.window.caveats)
    if cut:
        yield Remark("cut_short", f"{name} was not read whole")
    if len(side.requests) < FEW and side.summary.window.basis != "window":
        yield Remark(
            "few_requests",
            f"{name} holds {plural(len(side.requests), f'whole {side.evidence.noun}')}: its spread is hardly known",
        )
    warm = [finding for finding in side.report.diagnosis.findings if finding.kind in WARM_UP]
    if warm or side.summary.compiles:
        what = "first calls" if any(finding.kind is Kind.FIRST_CALL for finding in warm) else "compilations"
        yield Remark("warm_up", f"{name} holds {what}: a window after the warm-up would tell more")
