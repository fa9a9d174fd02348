"""What was changed between two captures, as far as they show it: more than one thing, and none can be blamed alone."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Iterator

from midwatch_server.diagnosis.diff.hostparts import EXPLICIT, GAPS
from midwatch_server.diagnosis.diff.inputs import different_inputs
from midwatch_server.diagnosis.diff.side import Side
from midwatch_server.diagnosis.diff.values import Change, Figure, Remark
from midwatch_server.diagnosis.words import count
from midwatch_server.diagnosis.worth import NOTE_SHARE

FUSED = 0.3
"""Launches that differ by a larger share of themselves are a change of their own: fusion, compilation."""
CODE = frozenset({"wait", "gap", "gc", "lock"})


def altered(a: Side, b: Side, figures: Iterable[Figure], changes: Iterable[Change]) -> tuple[Remark, ...]:
    """Return what was changed: the inputs, the device, versions, and what the code does otherwise, each thing once."""
    listed = tuple(changes)
    return (*_setup(a, b), *_code(a, b, listed), *_launches(tuple(figures), a.evidence.noun), *_kernels(listed))


def _setup(a: Side, b: Side) -> Iterator[Remark]:
    if different_inputs(a, b):
        yield Remark("inputs", "the inputs")
    first, second = a.facts("A"), b.facts("B")
    for code, what, before, after in (
        ("device", "the device", " and ".join(first.devices), " and ".join(second.devices)),
        ("torch", "torch", first.torch, second.torch),
        ("cuda", "CUDA", first.cuda, second.cuda),
        ("service_version", "the version of the service", first.service_version, second.service_version),
        *_resource(a, b),
    ):
        if before and after and before != after:
            yield Remark(code, f"{what} ({before} to {after})")


def _resource(a: Side, b: Side) -> Iterator[tuple[str, str, str, str]]:
    before, after = a.report.resource, b.report.resource
    if before is not None and after is not None:
        for code, what in (("driver", "the driver"), ("python", "Python"), ("environment", "the environment")):
            yield code, what, str(getattr(before, code)), str(getattr(after, code))


def _code(a: Side, b: Side, changes: tuple[Change, ...]) -> Iterator[Remark]:
    """Yield one remark a function whose waits, gaps, collections or locks came or went, if it is no mere note."""
    floor = NOTE_SHARE * max(statistics.median(a.walls), statistics.median(b.walls))
    seen: set[object] = set()
    for change in changes:
        if change.kind not in CODE or change.status not in ("gone", "new"):
            continue
        part = change.a or change.b
        if part is None or max(part.ms, part.gain_ms) < floor or part.gain_ms <= 0:
            continue
        if change.label == GAPS["unknown"] or (part.share < 0.5 and not change.label.startswith(EXPLICIT)):
            continue  # what has no name may be anything, and what few requests have is luck
        site = change.site
        thing = (site.file, site.function) if site is not None else change.label
        if thing not in seen:
            seen.add(thing)
            yield Remark("code", f"{change.label} ({'gone' if change.status == 'gone' else 'new'})")


def _launches(figures: tuple[Figure, ...], noun: str) -> Iterator[Remark]:
    known = {figure.key: figure for figure in figures}
    graphs, launches = known.get("graph_launches"), known.get("launches")
    if graphs is not None and graphs.a and graphs.b and bool(graphs.a.median) != bool(graphs.b.median):
        yield Remark("graphs", f"CUDA graphs ({'no longer' if graphs.a.median else 'now'} launched)")
    elif launches is not None and launches.a and launches.b and launches.status in ("more", "less"):
        before, after = launches.a.median, launches.b.median
        if abs(after - before) > FUSED * max(before, after):
            yield Remark("launches", f"the number of launches ({count(before)} to {count(after)} a {noun})")


def _kernels(changes: tuple[Change, ...]) -> Iterator[Remark]:
    kernels = {change.label: change for change in changes if change.kind == "kernels"}
    for change in kernels.values():
        before, after = (part.detail if part else "" for part in (change.a, change.b))
        if _otherwise(before, after):
            yield Remark("precision", f"the precision of {change.label} ({before} to {after})")
    fused = kernels.get("fused attention")
    if fused is not None and fused.status in ("gone", "new"):
        yield Remark("attention", f"fused attention ({fused.status})")


def _otherwise(before: str, after: str) -> bool:
    """Return whether type or use of tensor cores is known on both sides, and differs."""
    (type_a, cores_a), (type_b, cores_b) = _taken_apart(before), _taken_apart(after)
    return bool((type_a and type_b and type_a != type_b) or (cores_a and cores_b and cores_a != cores_b))


def _taken_apart(detail: str) -> tuple[str, str]:
    words = detail.split()
    cores = next((word for word in words if word in ("on", "without")), "")
    return (words[0] if words and words[0] != cores else ""), cores
