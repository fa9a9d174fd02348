"""Series that somebody recorded: a CSV of ``seconds,latency_ms[,label]`` with a header, one line a request."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
from series.scenarios import NO_SHAPES, microseconds
from series.values import SPIKE, Label, Series

_NOT_A_SPIKE = {"", "0", "normal"}


def read(path: Path) -> Series:
    """Return the requests of a file in the order of its lines.

    A label that is neither empty nor ``0`` nor ``normal`` makes its request a spike; a file without that column has no
    labels. Raises `ValueError`, naming the file and line, where something else stands in it or there is no request.
    """
    seconds: list[float] = []
    latencies_ms: list[float] = []
    labels: list[Label] = []
    with path.open(newline="") as file:
        rows = csv.DictReader(file)
        if not {"seconds", "latency_ms"} <= set(rows.fieldnames or ()):
            raise ValueError(f"{path} has no columns seconds and latency_ms in its first line; name them there")
        for row in rows:
            try:
                seconds.append(float(row["seconds"]))
                latencies_ms.append(float(row["latency_ms"]))
            except (TypeError, ValueError) as error:
                raise ValueError(f"{path}, line {rows.line_num}: not two numbers; mend or remove that line") from error
            if (row.get("label") or "").strip() not in _NOT_A_SPIKE:
                labels.append(Label(SPIKE, len(seconds) - 1, len(seconds) - 1))
    if not seconds:
        raise ValueError(f"{path} holds no request; give a file with at least one")
    at_us = np.rint((np.array(seconds) - seconds[0]) * 1e6).astype(np.int64)
    level_ms = np.zeros(0)
    return Series(path.stem, at_us, microseconds(np.array(latencies_ms)), level_ms, NO_SHAPES, tuple(labels))
