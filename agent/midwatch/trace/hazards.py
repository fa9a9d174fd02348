"""What stands in the way of capturing a request in a CUDA graph, as far as a trace shows it.

Captured would be what stands between the first and the last kernel that a request launches: its input is copied before,
its result is read afterwards, so a wait or an allocation out there is no hazard. Sources: the chapter on CUDA graphs in
PyTorch's notes on CUDA semantics (no synchronization, no control flow or shapes that depend on values on the device, no
work on streams that are not joined, warm-up on a side stream first, gradients kept in place for the replay), and the
CUDA programming guide (no cudaMalloc, cudaFree or module loading while a stream captures).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache

import numpy as np

from midwatch.trace import apis
from midwatch.trace.columns import KERNEL, Table
from midwatch.trace.frames import builtin_name, parse_python_name
from midwatch.trace.intervals import NONE, Ints
from midwatch.trace.kernels import family_of
from midwatch.trace.plan import Plan
from midwatch.trace.scene import Scene
from midwatch.trace.waits import Wait

_BRANCHES = frozenset({"aten::is_nonzero"})
"""What ``if tensor:`` and ``bool(tensor)`` call, and nothing else."""
_SIZED_BY_VALUES = frozenset({
    "aten::nonzero", "aten::argwhere", "aten::masked_select", "aten::unique", "aten::_unique", "aten::_unique2",
    "aten::unique_dim", "aten::unique_consecutive", "aten::unique_dim_consecutive",
})  # fmt: skip
_LOADS = ("ModuleLoad", "LibraryLoad", "ModuleGetFunction", "LibraryGetKernel", "LinkCreate")
"""Parts of the names of calls that bring code to the device, as the first call of a kernel does."""
_WARM_AFTER = 3
"""What happens in the first third of the requests alone is warm-up; of fewer requests than this nothing can be told."""


def hazards(
    scene: Scene, plans: Sequence[Plan], waits: Sequence[Wait], *, unstable: bool, reshaped: bool
) -> tuple[str, ...]:
    """Name what speaks against capturing these requests; ``unstable``: launches differ, ``reshaped``: sizes do."""
    cores = [core for plan in plans if (core := _core(scene, plan)) is not None]
    between = [item for plan, first, last in cores for item in plan.items[first : last + 1]]
    inside = {waits[item.wait].cause for item in between if item.wait >= 0}
    kernels = [_kernels(scene, plan, first, last) for plan, first, last in cores]
    works = np.concatenate(kernels) if kernels else NONE
    names = {scene.trace.names[n] for n in np.unique(scene.trace.device.name[works]).tolist()}
    kinds = [_kinds(scene, plan, first, last) for plan, first, last in cores]
    early = len(cores) >= _WARM_AFTER and not any(apis.ALLOC in some for some in kinds[-(-len(cores) // 3) :])
    allocates = any(apis.ALLOC in some for some in kinds)
    loads = any(_in_cores(scene.trace.runtime, scene, cores, lambda name: any(part in name for part in _LOADS)))
    ops = scene.trace.ops
    seen = {
        "sync": bool(inside),
        "tensor_control_flow": any(_in_cores(ops, scene, cores, _BRANCHES.__contains__))
        or (unstable and "item" in inside),
        "tensor_shapes": any(_in_cores(ops, scene, cores, _SIZED_BY_VALUES.__contains__)),
        "print_or_log": any(_in_cores(scene.trace.python, scene, cores, prints)) or _sampled_printing(scene, cores),
        "allocation": allocates and not early,
        "empty_cache": any(apis.FREE in some for some in kinds),
        "warm_up": loads or (allocates and early),
        "changing_sequence": unstable,
        "changing_shapes": reshaped and not unstable,
        "side_streams": len(np.unique(scene.trace.device.lane[works])) > 1,
        "collectives": any(family_of(name) == "collective" for name in names),
        "graphs_already": any(apis.GRAPH in some or apis.CAPTURE in some for some in kinds),
        "grads_to_none": any(_drops_gradients(scene, plan) for plan in plans),
        "one_request": len(plans) == 1,
    }
    return tuple(name for name, present in seen.items() if present)


Core = tuple[Plan, int, int]
"""A request with the positions of its first and its last item that launch a kernel."""


def _core(scene: Scene, plan: Plan) -> Core | None:
    launching = plan.items_of_works[scene.trace.device.kind[plan.works] == KERNEL]
    return (plan, int(launching[0]), int(launching[-1])) if len(launching) else None


def _span(plan: Plan, first: int, last: int) -> tuple[int, int]:
    return plan.items[first].start, plan.items[last].end


def _kernels(scene: Scene, plan: Plan, first: int, last: int) -> Ints:
    rows = plan.works[(plan.items_of_works >= first) & (plan.items_of_works <= last)]
    kernels: Ints = rows[scene.trace.device.kind[rows] == KERNEL]
    return kernels


def _kinds(scene: Scene, plan: Plan, first: int, last: int) -> frozenset[int]:
    start, end = _span(plan, first, last)
    rows = scene.runtime_of(plan.request)
    at = scene.trace.runtime.start[rows]
    return frozenset(np.unique(scene.links.kinds[rows[(at >= start) & (at <= end)]]).tolist())


def _in_cores(table: Table, scene: Scene, cores: Iterable[Core], wanted: Callable[[str], bool]) -> Iterable[bool]:
    """Of each request, whether an event whose name is ``wanted`` begins between its first and its last kernel."""
    numbers = [n for n in np.unique(table.name).tolist() if wanted(scene.trace.names[n])]
    rows = np.flatnonzero(np.isin(table.name, numbers)) if numbers else np.empty(0, np.int64)
    for plan, first, last in cores if len(rows) else ():
        start, end = _span(plan, first, last)
        near = rows[(table.start[rows] >= start) & (table.start[rows] <= end)]
        yield any(
            bool(((table.start[near] < part.end) & np.isin(table.lane[near], part.lanes)).any())
            for part in plan.request.parts
        )


@lru_cache(maxsize=65536)
def prints(name: str) -> bool:
    """Return whether a ``python_function`` event is of ``print`` or of the logging module."""
    frame = parse_python_name(name)
    return builtin_name(name) == "print" or (frame is not None and _is_logging(frame.file))


def _is_logging(file: str) -> bool:
    return file.replace("\\", "/").endswith("logging/__init__.py")


def _sampled_printing(scene: Scene, cores: Iterable[Core]) -> bool:
    tracks = scene.trace.tracks
    if tracks is None:
        return False
    frames = {i for i, f in enumerate(tracks.frames) if f.callee == "print" or _is_logging(f.file)}
    stacks = {i for i, stack in enumerate(tracks.stacks) if frames.intersection(stack)}
    if not stacks:
        return False
    for plan, first, last in cores:
        start, end = _span(plan, first, last)
        for part in plan.request.parts:
            thread = scene.sites.samples.of(part.thread_id)
            if thread and stacks.intersection(thread.within(max(start, part.start), min(end, part.end))):
                return True
    return False


def _drops_gradients(scene: Scene, plan: Plan) -> bool:
    """Zeroing that launches nothing has set the gradients to None: the graph would go on writing to the old ones."""
    annotations, names = scene.trace.annotations, scene.trace.names
    first, last = np.searchsorted(annotations.start, [plan.request.start, plan.request.end], side="left").tolist()
    rows = [r for r in range(first, last) if names[int(annotations.name[r])].startswith("Optimizer.zero_grad")]
    return any(
        not any(annotations.start[row] <= item.start < annotations.end[row] for item in plan.items) for row in rows
    )
