"""A short stretch of what ``./dev bench fuzz`` does for as long as one likes, always the same one."""

from __future__ import annotations

import importlib.util
import json
import random
import sys
from pathlib import Path

import pytest
from isal import igzip
from midwatch.trace import summarise

BENCHES = Path(__file__).parents[2] / "benchmarks" / "fuzzing"
DATA = Path(__file__).parents[2] / "data"


def module(name):
    spec = importlib.util.spec_from_file_location(f"fuzzing_{name}", BENCHES / f"{name}.py")
    found = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = found
    spec.loader.exec_module(found)
    return found


mutate, target = module("mutate"), module("target")


@pytest.fixture(scope="module")
def texts():
    return mutate.corpus([DATA])


@pytest.mark.parametrize("seed", range(6))
def test_whatever_a_file_holds_it_is_read_or_refused_in_one_sentence(texts, tmp_path, seed):
    rng = random.Random(seed)
    path = tmp_path / "t.json"
    ends = set()
    for _ in range(120):
        content = mutate.packed(mutate.mutated(mutate.mutated(rng.choice(texts), rng), rng), rng)
        path.write_bytes(content)
        ends.add(target.judge(path))
    assert ends == {"read", "refused"}


def numbers(value, at=()):
    """Where numbers stand in a document; of a list in the last two of its items."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from numbers(inner, (*at, key))
    elif isinstance(value, list):
        for number in range(max(0, len(value) - 2), len(value)):
            yield from numbers(value[number], (*at, number))
    elif type(value) in (int, float):
        yield at


def test_no_number_in_the_agents_own_tracks_becomes_a_figure_that_cannot_be(tmp_path):
    document = json.loads(igzip.decompress((DATA / "pairs" / "gc_each.json.gz").read_bytes()))
    tracks = document["midwatch"]
    first = tracks["requests"][0]
    moment = {"unix_ns": first["start_unix_ns"] + 1000, "duration_ns": 500_000, "thread_id": first["thread_id"]}
    tracks["locks"] = [{**moment, "waiter": tracks["frames"][:1], "holder": tracks["frames"][:1], "lock": "Lock X"}]
    tracks["compiles"] = [{"start_unix_ns": moment["unix_ns"], "duration_ns": 500_000, "trigger": "dynamo"}]
    path = tmp_path / "t.json"
    places = list(numbers(tracks))
    assert len({tuple(part for part in place if isinstance(part, str)) for place in places}) > 40
    for *parents, name in places:
        holder = tracks
        for part in parents:
            holder = holder[part]
        usual = holder[name]
        for figure in (-1, 2**63 - 1):
            holder[name] = figure
            path.write_text(json.dumps(document))
            assert target.judge(path) == "read", (parents, name, figure)
        holder[name] = usual
    assert "tracks_unreadable" not in {caveat.code for caveat in summarise(path).window.caveats}


def test_the_corpus_holds_the_agents_own_tracks_and_each_is_read_as_it_is(texts, tmp_path):
    path = tmp_path / "t.json"
    read = []
    for text in texts:
        path.write_bytes(text)
        read.append(target.judge(path))
    assert read.count("read") > 0.9 * len(texts)
    assert sum(b'"midwatch"' in text for text in texts) >= 10


def test_a_failure_is_written_down_once_beside_its_file(tmp_path, capsys):
    failures = target.Failures(tmp_path / "failures")
    with pytest.raises(KeyError) as caught:
        raise KeyError(1)
    for content in (b"first", b"second"):
        failures.add(content, caught.value)
    (trace,) = (tmp_path / "failures").glob("*.trace")
    assert trace.read_bytes() == b"first"
    assert "KeyError" in trace.with_suffix(".txt").read_text()
    assert list(failures.seen.values()) == [2]
    assert capsys.readouterr().out.startswith("FAILURE KeyError")


def test_properties_of_devices_that_are_no_text_are_no_names(tmp_path):
    raw = igzip.decompress((DATA / "field" / "hta__event_sync.json.gz").read_bytes())
    at = raw.index(b'"name"', raw.index(b'"deviceProperties"'))
    path = tmp_path / "t.json"
    path.write_bytes(raw[:at] + b"\xff" + raw[at + 1 :])
    assert summarise(path).device.names == ()
