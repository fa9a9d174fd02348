"""Services with one planted fault each: what the real agent and collector say of their spikes.

The short form of ``tests/benchmarks/fault_bench.py``, with its services and its judgement; there are all of them, each
alone, and healthy ones, which say nothing here: side by side on two cores none is.
"""

import sys
from collections import Counter
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
SECONDS = 12.0
WITNESSED = ("gc_by_hand",)
"""Told by a callback: looks are not needed, so the right answer does not hang on how busy this machine is."""
LOOKED_AT = ("lock_held", "subprocess_call")
"""Told by looks at spikes of 35 ms, which a busy machine may let pass: then nothing is known."""


@pytest.fixture
def hostside(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from faults import hostside

    yield hostside
    for name in [name for name in sys.modules if name.partition(".")[0] == "faults"]:
        del sys.modules[name]


def what_it_is(hostside, one, findings):
    if findings and hostside.right(findings[0], one):
        return "right"
    claims = findings and findings[0].site is not None and findings[0].site.exact
    return "wrong" if claims else "unknown"


def test_spikes_get_the_kind_and_the_line_that_were_planted(world, client, hostside):
    """Side by side, to save time: each is busy for a sixth of a core."""
    chosen = [one for one in hostside.SPIKY if one.name in WITNESSED + LOOKED_AT]
    assert len(chosen) == len(WITNESSED + LOOKED_AT)
    world.collector()
    running = []
    for one in chosen:
        arguments = [str(one.path), "--seconds", str(SECONDS), "--record", str(world.folder / f"{one.name}.record")]
        running.append(world.start(*arguments, MIDWATCH_SERVICE=one.name, MIDWATCH_ROUTINE="0"))
    for process in running:
        assert process.wait(SECONDS + 60.0) == 0
    for one in chosen:
        had = hostside.planted(world.folder / f"{one.name}.record")
        assert had, one.name
        seen = Counter()
        for told in world.eventually(f"a spike of {one.name}", lambda name=one.name: client.spikes(name)):
            detail = client.spike(told.spike.spike_id)
            request, findings = detail.spike.request, detail.diagnosis.findings
            if any(hostside.same_request(p, request.start_unix_ns, request.duration_ns) for p in had):
                seen[what_it_is(hostside, one, findings)] += 1
        assert seen["right"] >= seen["wrong"], (one.name, seen)
        assert one.name in LOOKED_AT or seen["right"] > seen["unknown"], (one.name, seen)
