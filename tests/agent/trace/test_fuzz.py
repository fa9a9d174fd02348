"""A short stretch of what ``./dev bench fuzz`` does for as long as one likes, always the same one."""

from __future__ import annotations

import importlib.util
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
