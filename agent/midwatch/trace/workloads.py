"""What the requests of a window worked on, from the agent's own tracks."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from midwatch.model.workload import Workload
from midwatch.trace.scene import Scene


def workload_of(scene: Scene) -> Workload:
    """Return what the agent noted of the window, and of most of its units or requests where it noted no inputs."""
    tracks = scene.trace.tracks
    if tracks is None:
        return Workload()
    known = tracks.capture.workload
    if known.inputs:
        return known
    for records in (tracks.units, tracks.requests):
        seen = Counter(record.workload for record in records if record.workload.inputs)
        if seen:
            most = seen.most_common(1)[0][0]
            return replace(most, notes=known.notes or most.notes)
    return known
