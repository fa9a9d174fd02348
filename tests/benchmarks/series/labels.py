"""The committed labels and digests: what the generator gives, on every machine and with every version of numpy."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

from series.values import CLUSTER, RECURRING, SHIFT, SINGLE, TAIL, Series

PATH = Path(__file__).parents[2] / "data" / "detection" / "labels.json"


def entry(untouched: Series, injected: Series) -> dict[str, Any]:
    """Return what is committed of a scenario and seed. Of spikes each is written as its distance to the one before."""
    steps = {}
    for pattern in (SINGLE, RECURRING, CLUSTER):
        indices = [0, *injected.spikes(pattern).tolist()]
        steps[pattern] = " ".join(str(later - earlier) for earlier, later in itertools.pairwise(indices))
    stretches = {kind: [[one.first, one.last] for one in injected.labels if one.kind == kind] for kind in (TAIL, SHIFT)}
    return {
        "requests": len(injected),
        "healthy_sha256": untouched.digest(),
        "injected_sha256": injected.digest(),
        "spikes": steps,
        **{kind: spans for kind, spans in stretches.items() if spans},
    }


def read() -> dict[str, dict[str, Any]]:
    """Return the committed entries by scenario and seed."""
    found: dict[str, dict[str, Any]] = json.loads(PATH.read_text())
    return found


def write(entries: dict[str, dict[str, Any]]) -> None:
    """Commit to these from now on."""
    PATH.write_text(json.dumps(entries, indent=1) + "\n")
