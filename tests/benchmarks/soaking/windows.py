"""Windows as the product opens them, and which of their steps a request or the GIL waited in."""

from __future__ import annotations

import faulthandler
import statistics
import time
from pathlib import Path
from types import SimpleNamespace

from soaking.look import look
from soaking.service import HANG_S, figures

OUTSIDE = "outside"


class Windows:
    """The thread that makes this object is the profiler thread. Trace files are looked at by `summary`, in a child."""

    def __init__(self, folder, *, deep=False, spacing_s=1.0):
        from midwatch.capture.select import choose_engine
        from midwatch.capture.session import session

        self.session = session
        self.engine, self.parts = choose_engine(
            "auto", service="soak", state_dir=str(folder), allow_deep=True, spacing_s=spacing_s
        )
        if self.engine is None:
            raise RuntimeError(f"no engine works here: {self.parts}")
        self._folder, self.deep, self.spacing_s = folder, deep, spacing_s
        self.path, self.rows, self._made = "", [], 0

    def one(self, seconds, *, save=True):
        """Open, record, close; returns and remembers a row. Spacing first."""
        faulthandler.dump_traceback_later(HANG_S, exit=True)
        try:
            return self._one(seconds, save)
        finally:
            faulthandler.cancel_dump_traceback_later()

    def _one(self, seconds, save):
        time.sleep(self.spacing_s)
        path = str(self._folder / f"window-{self._made}.json")
        self._made += 1
        begin = time.monotonic()
        self.engine.open(deep=self.deep)
        opened = time.monotonic()
        self.session.wanted.wait(seconds)
        if not save:
            self.engine.abort()
            return None
        result = self.engine.close(path)
        row = SimpleNamespace(
            begin=begin,
            end=time.monotonic(),
            steps=[("open", begin), *self.engine.phases],
            open_ms=(opened - begin) * 1e3,
            stop_ms=result.stop_ms,
            path=path,
            empty=result.empty,
            mb=result.trace_bytes / 2**20,
        )
        self.rows.append(row)
        self.path = path
        return row

    def summary(self, rows=None):
        """Figures of the windows, made after the measurement."""
        rows = self.rows if rows is None else rows
        if not rows:
            return {"windows": 0}
        counts = look("count", paths=[r.path for r in rows if not r.empty])
        for row in rows:
            row.kernels, row.launches = counts.get(row.path, (0, 0))
            if row.path != self.path:
                Path(row.path).unlink(missing_ok=True)
        return {
            "windows": len(rows),
            "empty": sum(r.empty for r in rows),
            "launches_no_kernels": sum(1 for r in rows if r.launches and not r.kernels),
            "worst_kernel_share": round(min((r.kernels / r.launches for r in rows if r.launches), default=0), 3),
            "kernels_p50": statistics.median([r.kernels for r in rows]),
            "open_ms": figures([r.open_ms for r in rows]),
            "first_open_ms": round(rows[0].open_ms, 1),
            "stop_ms": figures([r.stop_ms for r in rows]),
            "trace_mb_p50": round(statistics.median([r.mb for r in rows]), 2),
        }


def steps_of(rows):
    """How long each step took, in ms: its median and its maximum."""
    taken = {}
    for row in rows:
        for (name, begin), (_, end) in zip(row.steps, row.steps[1:], strict=False):
            taken.setdefault(name, []).append((end - begin) * 1e3)
    return {name: [round(statistics.median(ms), 2), round(max(ms), 2)] for name, ms in taken.items()}


def by_step(rows, waits, stretch):
    """Latency figures of the requests (or waits) by the step in which they spent most of their time."""
    spans = [
        (name, begin, end)
        for row in rows
        for (name, begin), (_, end) in zip(row.steps, [*row.steps[1:], ("", row.end)], strict=True)
    ]
    sorted_into = {}
    first = 0
    for begin, seconds in sorted(waits):
        end = begin + seconds
        if begin < stretch[0] or end > stretch[1]:
            continue
        while first < len(spans) and spans[first][2] < begin:
            first += 1
        overlaps = {}
        for name, opened, closed in spans[first:]:
            if opened > end:
                break
            overlaps[name] = overlaps.get(name, 0.0) + min(end, closed) - max(begin, opened)
        overlaps[OUTSIDE] = seconds - sum(overlaps.values())
        sorted_into.setdefault(max(overlaps, key=overlaps.get), []).append(seconds * 1e3)
    order = {name: index for index, (name, _) in enumerate(rows[0].steps)} if rows else {}
    return {name: figures(sorted_into[name]) for name in sorted(sorted_into, key=lambda name: order.get(name, -1))}


def worst(rows, waits, most=8):
    """The longest waits: milliseconds, the step in which each began, and how far into it."""
    out = []
    for begin, seconds in sorted(waits, key=lambda wait: -wait[1])[:most]:
        at = [step for row in rows if row.begin <= begin <= row.end for step in row.steps if step[1] <= begin]
        where = f"{at[-1][0]} +{(begin - at[-1][1]) * 1e3:.1f}" if at else OUTSIDE
        out.append([round(seconds * 1e3, 1), where])
    return out
