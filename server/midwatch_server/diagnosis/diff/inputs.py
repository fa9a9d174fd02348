"""Whether both sides worked on the same inputs: as they were noted, else by the shapes of the operators they share."""

from __future__ import annotations

from midwatch_server.diagnosis.diff.side import Side

MOST = 0.5
"""Of the time of the operators that both sides share: where more of it is spent on other shapes, the inputs differ."""


def known_inputs(side: Side) -> bool:
    """Return whether anything tells the shapes of the inputs."""
    return bool(side.inputs or _shapes(side))


def different_inputs(a: Side, b: Side) -> str:
    """Say in what the inputs differ; "" where they are alike, or not known on both sides."""
    if a.inputs and b.inputs:
        if set(a.inputs) & set(b.inputs):
            return ""
        return f"the inputs differ: {_first(a.inputs)} in A, {_first(b.inputs)} in B"
    mine, theirs = _shapes(a), _shapes(b)
    spent = {name: _spent(a, name) + _spent(b, name) for name in mine if name in theirs}
    other = {name: time for name, time in spent.items() if not mine[name] & theirs[name]}
    if not other or sum(other.values()) <= MOST * sum(spent.values()):
        return ""
    top = max(other, key=lambda name: other[name])
    return f"the shapes differ: {top} works on {min(mine[top])} in A, on {min(theirs[top])} in B"


def _first(inputs: tuple[str, ...]) -> str:
    return inputs[0] if len(inputs) == 1 else f"{inputs[0]} and {len(inputs) - 1} more"


def _shapes(side: Side) -> dict[str, set[str]]:
    """Return the commonest shapes of each operator, as far as they were recorded."""
    found: dict[str, set[str]] = {}
    for op in side.summary.ops:
        found.setdefault(op.name, set()).update(op.shapes)
    for kernels in side.summary.kernels:
        if kernels.op:
            found.setdefault(kernels.op, set()).update(kernels.shapes)
    return {name: shapes for name, shapes in found.items() if shapes}


def _spent(side: Side, name: str) -> float:
    """Return the time of one operator as a share of that of all: on the device, or on the host where there is none."""
    on_device = sum(kernels.total_ms for kernels in side.summary.kernels if kernels.op == name)
    all_device = sum(kernels.total_ms for kernels in side.summary.kernels)
    if all_device:
        return on_device / all_device
    on_host = sum(op.self_ms for op in side.summary.ops if op.name == name)
    return on_host / max(sum(op.self_ms for op in side.summary.ops), 1e-9)
