"""Parts that only load the engine: many windows, many threads, deep windows, windows over nothing, memory."""

from __future__ import annotations

import gc
import time

from soaking.look import look, thread_table
from soaking.service import GcPauses, Service, figures, rss_mb, slope, within
from soaking.windows import Windows, by_step, worst


def part_soak(env):
    """150 light windows of 60 ms, one request thread: lost kernels, memory a window, p50 before and after."""
    service = Service(env.torch, env.device).start()
    before = service.quiet(env.seconds(6))
    windows = Windows(env.folder, spacing_s=0.6)
    levels = []
    pauses = GcPauses()
    begin = time.monotonic()
    for _ in range(env.number(155, 6)):
        windows.one(0.06)
        levels.append(rss_mb())
    during = (begin, time.monotonic())
    after = service.quiet(env.seconds(6))
    threads = thread_table()
    service.stop()
    env.keep(windows.path, "light.json.gz")
    return {
        **windows.summary(),
        "p50_before": figures(within(service.requests, before)),
        "p50_after": figures(within(service.requests, after)),
        "requests_by_step_ms": by_step(windows.rows, service.requests, during),
        "worst_requests": worst(windows.rows, service.requests),
        "gc_pauses_ms": figures([seconds * 1e3 for _, seconds in pauses.pauses]),
        "rss_first_mb": round(levels[0], 1),
        "rss_10_mb": round(levels[min(9, len(levels) - 1)], 1),
        "rss_last_mb": round(levels[-1], 1),
        "rss_slope_mb_per_window": round(slope(levels[9:110] if len(levels) > 20 else levels), 3),
        "trace": look("describe", path=windows.path, threads=threads),
    }


def memory(env, *, save):
    """Resident memory over 50 windows of 60 ms that are saved, or stopped and thrown away."""
    service = Service(env.torch, env.device).start()
    windows = Windows(env.folder, spacing_s=0.4)
    levels = []
    for _ in range(env.number(50, 4)):
        windows.one(0.06, save=save)
        gc.collect()
        levels.append(rss_mb())
    requests = len(service.requests)
    service.stop()
    return {
        "windows": len(levels),
        "rss_first_mb": round(levels[0], 1),
        "rss_last_mb": round(levels[-1], 1),
        "slope_mb_per_window": round(slope(levels[9:] if len(levels) > 20 else levels), 3),
        "requests": requests,
        "levels_mb": [round(level - levels[0], 1) for level in levels[::5]],
    }


def part_saved(env):
    """Memory a window, with save."""
    return memory(env, save=True)


def part_unsaved(env):
    """Memory a window, without save."""
    return memory(env, save=False)


def part_threads(env):
    """Six request threads; the last three windows are 2 s long."""
    env.torch.set_num_threads(1)
    service = Service(env.torch, env.device, threads=6).start()
    base = service.quiet(env.seconds(8))
    windows = Windows(env.folder)
    windows.one(0.06)
    windows.rows.clear()
    begin = time.monotonic()
    for index in range(env.number(20, 2)):
        windows.one(0.1 if index % 2 else 0.3)
    short, middle = windows.rows[:], time.monotonic()
    for _ in range(env.number(3, 1)):
        windows.one(env.seconds(2))
    long, end = windows.rows[len(short) :], time.monotonic()
    service.stop()
    return {
        "baseline": figures(within(service.requests, base)),
        "short": windows.summary(short),
        "short_requests_by_step_ms": by_step(short, service.requests, (begin, middle)),
        "long": windows.summary(long),
        "long_requests_by_step_ms": by_step(long, service.requests, (middle, end)),
        "worst_requests": worst(windows.rows, service.requests),
    }


def part_deep(env):
    """Deep windows (operators of all threads and shapes) with the toggle-and-grace stop, six threads."""
    env.torch.set_num_threads(1)
    service = Service(env.torch, env.device, threads=6).start()
    base = service.quiet(env.seconds(6))
    windows = Windows(env.folder, deep=True)
    begin = time.monotonic()
    for _ in range(env.number(36, 3)):
        windows.one(0.06)
    during, rss, threads = (begin, time.monotonic()), rss_mb(), thread_table()
    service.stop()
    return {
        **windows.summary(),
        "baseline": figures(within(service.requests, base)),
        "requests_by_step_ms": by_step(windows.rows, service.requests, during),
        "worst_requests": worst(windows.rows, service.requests),
        "rss_mb": round(rss, 1),
        "trace": look("describe", path=windows.path, threads=threads),
    }


def part_idle(env):
    """Windows over a service that rests: are sessions without work torn down safely, do kernels come back?"""
    service = Service(env.torch, env.device).start()
    windows = Windows(env.folder)
    service.paused.set()
    time.sleep(0.2)
    for _ in range(env.number(12, 2)):
        windows.one(0.06)
    idle = windows.rows[:]
    service.paused.clear()
    service.wait_for(20)
    windows.one(0.06)
    service.stop()
    return {"idle": windows.summary(idle), "busy_again": windows.summary(windows.rows[len(idle) :])}
