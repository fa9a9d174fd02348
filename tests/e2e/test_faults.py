"""Services with one planted fault each, and a healthy one: what the real agent and collector say of their spikes.

The short form of ``tests/benchmarks/fault_bench.py``, with its services and its judgement; there are all of them.
"""

import sys
from collections import Counter
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
SECONDS = 14.0
NAMES = ("gc_by_hand", "lock_held", "retry_sleep", "subprocess_call")


@pytest.fixture
def hostside(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    from faults import hostside

    yield hostside
    for name in [name for name in sys.modules if name.partition(".")[0] == "faults"]:
        del sys.modules[name]


def test_spikes_get_the_kind_and_the_line_that_were_planted(world, client, hostside):
    """Side by side, to save time: each is busy for a sixth of a core."""
    chosen = [one for one in hostside.SPIKY if one.name in NAMES]
    assert len(chosen) == len(NAMES)
    healthy = next(one for one in hostside.HEALTHY if one.name == "steady")
    world.collector()
    running = []
    for one in (*chosen, healthy):
        arguments = [str(one.path), "--seconds", str(SECONDS), "--record", str(world.folder / f"{one.name}.record")]
        running.append(world.start(*arguments, MIDWATCH_SERVICE=one.name, MIDWATCH_ROUTINE="0"))
    world.eventually("the healthy service reports", lambda: client.agents(healthy.name))
    for process in running:
        assert process.wait(SECONDS + 60.0) == 0
    for one in chosen:
        had = hostside.planted(world.folder / f"{one.name}.record")
        assert had, one.name
        seen = Counter()
        for told in world.eventually(f"two spikes of {one.name}", lambda name=one.name: client.spikes(name)[1:]):
            detail = client.spike(told.spike.spike_id)
            request, findings = detail.spike.request, detail.diagnosis.findings
            if any(hostside.same_request(p, request.start_unix_ns, request.duration_ns) for p in had):
                seen[bool(findings) and hostside.right(findings[0], one)] += 1
        assert seen[True] > seen[False], (one.name, seen)
    assert [incident.kind.value for incident in client.incidents(healthy.name)] == []
