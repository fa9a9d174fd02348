"""The freeze: what a window costs the requests around it, by the steps of the window."""

from __future__ import annotations

import gc
import os
import time

from soaking.service import GcPauses, GilProbe, Service, figures, within
from soaking.windows import OUTSIDE, Windows, by_step, steps_of, worst


def freeze(env):
    """20 windows of 100 and 300 ms between a baseline and an A/A row."""
    env.torch.set_num_threads(1)
    service = Service(env.torch, env.device).start()
    windows = Windows(env.folder, spacing_s=0.6)
    windows.one(0.06)  # the first attach is a row of its own
    first = windows.rows.pop()
    gc.collect()
    gc.freeze()  # a full collection of torch's modules takes 100 ms, whoever causes it
    probe, pauses = GilProbe(), GcPauses()
    base = service.quiet(env.seconds(16))
    begin = time.monotonic()
    for seconds in [0.1, 0.3] * env.number(10, 1):
        windows.one(seconds)
    taken = (begin, time.monotonic())
    again = service.quiet(env.seconds(12))
    service.stop()
    probe.stop()
    return report(windows, first, service.requests, (base, taken, again), (probe.gaps, pauses.pauses))


def report(windows, first, requests, stretches, watched):
    base, taken, again = (within(requests, stretch) for stretch in stretches)
    gaps, pauses = watched
    steps = by_step(windows.rows, requests, stretches[1])
    inside = {name: row for name, row in steps.items() if name != OUTSIDE}
    return {
        "cores": len(os.sched_getaffinity(0)),
        "baseline": figures(base),
        "windows": figures(taken),
        "a_a": figures(again),
        "over_baseline_max_ms": round(max(row["max"] for row in inside.values()) - max(base), 3),
        "a_a_over_baseline_max_ms": round(max(again) - max(base), 3),
        "traced_p50_over_baseline": round(steps.get("recording", {}).get("p50", 0.0) / figures(base)["p50"], 3),
        "requests_by_step_ms": steps,
        "worst_requests": worst(windows.rows, [r for r in requests if stretches[1][0] <= r[0] <= stretches[1][1]]),
        "gil_gaps_baseline_ms": figures(within(gaps, stretches[0])),
        "gil_gaps_by_step_ms": by_step(windows.rows, gaps, stretches[1]),
        "worst_gil_gaps": worst(windows.rows, [g for g in gaps if stretches[1][0] <= g[0] <= stretches[1][1]]),
        "gc_pauses_ms": {
            name: figures(within(pauses, s)) for name, s in zip(("base", "windows"), stretches, strict=False)
        },
        "steps_p50_max_ms": steps_of(windows.rows),
        "first_open_ms_here": round(first.open_ms, 1),
        "engine": windows.summary(),
    }


def part_freeze2(env):
    """The freeze on 2 cores."""
    return freeze(env)


def part_freeze16(env):
    """The freeze on 16 cores."""
    return freeze(env)
