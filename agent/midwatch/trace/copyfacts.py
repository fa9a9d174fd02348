"""Copies by direction and kind of memory."""

from __future__ import annotations

import re
from collections import defaultdict

import numpy as np

from midwatch.model.trace import CopyFacts
from midwatch.trace.columns import MEMCPY
from midwatch.trace.scene import Scene

_NAME = re.compile(r"Memcpy (?P<direction>\w+) \((?P<memory>[^)]+)\)")


def copy_facts(scene: Scene) -> tuple[CopyFacts, ...]:
    """Group all copies; ``host_ms`` is the time inside the calls that started them."""
    device, runtime, links = scene.trace.device, scene.trace.runtime, scene.links
    groups: dict[tuple[str, str], list[int]] = defaultdict(list)
    for row in np.flatnonzero(device.kind == MEMCPY).tolist():
        match = _NAME.match(scene.trace.names[int(device.name[row])])
        groups[(match["direction"], match["memory"]) if match else ("unknown", "")].append(row)
    facts = []
    for (direction, memory), rows in groups.items():
        calls = np.unique(links.launcher[rows])
        calls = calls[calls >= 0]
        site = None
        if len(calls):
            call = int(calls[(runtime.end[calls] - runtime.start[calls]).argmax()])
            lane = int(runtime.lane[call])
            thread = scene.threads.native.get(lane, 0)
            site = scene.sites.launching(thread, lane, int(runtime.start[call]), int(runtime.end[call]))
        facts.append(
            CopyFacts(
                direction,
                memory,
                len(rows),
                int(np.maximum(device.size[rows], 0).sum()),
                int((device.end[rows] - device.start[rows]).sum()) / 1e6,
                int((runtime.end[calls] - runtime.start[calls]).sum()) / 1e6,
                site,
            ),
        )
    return tuple(sorted(facts, key=lambda f: -f.device_ms))
