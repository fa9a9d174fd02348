"""Text to events: cut anywhere, mended where the damage is local, refused in one sentence where it is not."""

from __future__ import annotations

import contextlib
import gzip
import itertools
import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from midwatch.trace import TraceError, summarise
from midwatch.trace.events import EMPTY
from midwatch.trace.load import load
from midwatch.trace.samples import Samples
from midwatch.trace.source import Source
from midwatch.trace.split import Reader

EVENT = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 2, "ts": 1.5, "dur": 2.25}


def read(*pieces):
    reader = Reader(list(pieces), "t.json")
    return [event for batch in reader for event in batch], reader


def document(events, *, indent=None, before="", after=""):
    return f'{{{before}"traceEvents": {json.dumps(events, indent=indent)}{after}}}'.encode()


def many(count):
    return [
        {**EVENT, "ts": i, "args": {"note": f'a "]}}", {{"name": {i}', "Input Dims": [[i, 2], []]}}
        for i in range(count)
    ]


@settings(max_examples=60, deadline=None)
@given(cuts=st.lists(st.integers(0, 9000), max_size=6), indent=st.sampled_from([None, 1, 2]))
def test_it_does_not_matter_where_the_text_is_cut(cuts, indent):
    text = document(many(40), indent=indent, before='"baseTimeNanoseconds": 7, ', after=', "traceName": "x"')
    edges = [0, *sorted(min(c, len(text)) for c in cuts), len(text)]
    events, reader = read(*(text[a:b] for a, b in itertools.pairwise(edges)))
    assert [e.ts for e in events] == list(range(40))
    assert (reader.head.base_ns, reader.repaired, reader.dropped, reader.unfinished) == (7, 0, 0, False)


def test_a_bare_list_has_no_head():
    events, reader = read(json.dumps(many(3)).encode())
    assert len(events) == 3
    assert reader.head.base_ns is None


def test_what_stands_behind_the_events_is_read_too():
    after = ', "baseTimeNanoseconds": 9, "deviceProperties": [{"id": 0, "name": "H200"}, {"name": "x", "id": 1}]'
    events, reader = read(document(many(2), after=after))
    assert (len(events), reader.head.base_ns) == (2, 9)
    assert [d["name"] for d in reader.head.devices] == ["H200", "x"]


def test_tracks_behind_the_events_are_no_events():
    after = ', "midwatch": {"frames": [{"name": "a", "pid": 1}, {"name": "b", "pid": 1}], "requests": []}'
    events, reader = read(document(many(2), after=after))
    assert len(events) == 2
    assert reader.head.midwatch is not EMPTY
    assert reader.dropped == 0


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        ('"name": "aten::mm"', '"name": "{"device": "cpu", "dtype": "float32"}(12): run"'),
        ('"name": "aten::mm"', '"name": "C:\\Users\\x\\app.py(12): run"'),
        ('"ts": 0', '"ts": NaN'),
        ('"dur": 2.25', '"dur": -Infinity'),
        ('"name": "aten::mm"', '"name": "tab\there"'),
    ],
)
def test_local_damage_is_mended_and_only_there(good, bad):
    broken = document(many(5)).decode().replace(good, bad, 1)
    events, reader = read(broken.encode())
    assert len(events) == 5
    assert (reader.repaired, reader.dropped) == (1, 0)
    assert 0 < reader.first_damage < len(broken)


def test_raw_bytes_in_a_name_are_mended():
    text = document(many(3)).replace(b"aten::mm", b"aten::\xff\xfe", 1)
    events, reader = read(text)
    assert len(events) == 3
    assert reader.repaired == 1


def test_what_cannot_be_mended_is_dropped_and_counted():
    text = document(many(4)).replace(b'"ph": "X"', b'"ph": X:', 1)
    events, reader = read(text)
    assert (len(events), reader.dropped) == (3, 1)


def test_numbers_of_any_size_and_spelling_are_numbers(tmp_path):
    path = tmp_path / "t.json"
    odd = [
        {**EVENT, "ts": "12.5", "tid": "2", "args": {"External id": 10**30}},
        {**EVENT, "ts": 13, "dur": None, "tid": 10**25},
        {**EVENT, "ts": 14, "args": "none"},
    ]
    path.write_bytes(document(odd))
    trace = load(path)
    assert trace.ops.start.tolist() == [0, 500, 1500]
    assert [c.code for c in trace.caveats] == ["bad_numbers"]


def test_absolute_times_keep_their_nanoseconds(tmp_path):
    path = tmp_path / "t.json"
    path.write_bytes(document([{**EVENT, "ts": 5169397932352.598}, {**EVENT, "ts": 5169397932353.001}]))
    assert load(path).ops.start.tolist() == [0, 403]


def test_events_on_another_clock_are_left_out(tmp_path):
    path = tmp_path / "t.json"
    good = [{**EVENT, "ts": 9e11 + i} for i in range(9)]
    path.write_bytes(document([*good, {**EVENT, "ts": 0, "dur": 0}, {**EVENT, "ts": 9e11, "dur": 7e15}]))
    trace = load(path)
    assert len(trace.ops) == 9
    assert [(c.code, c.count) for c in trace.caveats] == [("bad_times", 2)]


def test_a_cut_file_gives_what_it_holds_and_says_so(tmp_path):
    whole = document(many(2000), indent=1)
    plain, packed = tmp_path / "cut.json", tmp_path / "cut.json.gz"
    plain.write_bytes(whole[:20_000])
    compressed = gzip.compress(whole)
    packed.write_bytes(compressed[: len(compressed) // 2])
    for path in (plain, packed):
        trace = load(path)
        assert 10 < len(trace.ops) < 2000
        assert "truncated" in [c.code for c in trace.caveats]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "no "),
        (b"hello", "is not a Kineto trace"),
        (b'{"a": 1}', "is not a Kineto trace"),
        (b'{"traceEvents": []}', "holds no timed events"),
        (b"\x1f\x8bnonsense", "damaged gzip"),
        (b"\x1f\x8b", "damaged gzip"),
        (gzip.compress(b"\0" * 9_000_000), "is not a Kineto trace"),
    ],
)
def test_what_is_no_trace_is_refused_in_one_sentence(tmp_path, content, says):
    path = tmp_path / "x.json.gz"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=says) as caught:
        summarise(path)
    assert str(caught.value).endswith(".")
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_refused_in_one_sentence(tmp_path):
    with pytest.raises(TraceError, match="No such file"):
        summarise(tmp_path / "none.json")
    with pytest.raises(TraceError, match=r"[Dd]irectory"):
        summarise(tmp_path)


def test_a_file_beyond_the_limit_is_read_up_to_it(tmp_path):
    path = tmp_path / "big.json"
    path.write_bytes(document(many(40_000)))
    source = Source(path, max_bytes=1)
    assert sum(len(piece) for piece in source) < path.stat().st_size
    assert source.bounded


def test_progress_is_told_and_ends_at_the_size(data):
    told = []
    path = data / "h200" / "item_metric.json.gz"
    summarise(path, progress=lambda done, size: told.append((done, size)))
    assert told[-1][0] == told[-1][1] == path.stat().st_size


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data_=st.data())
def test_no_damage_makes_it_fall_over(data, tmp_path, data_):
    text = bytearray(gzip.decompress((data / "field" / "hta__event_sync.json.gz").read_bytes()))
    for _ in range(data_.draw(st.integers(1, 4))):
        at = data_.draw(st.integers(0, len(text) - 1))
        what = data_.draw(st.sampled_from([b"", b'"', b"\\", b"{", b"}", b"]", b",", b"\xff", b"NaN", b"-1", b"1e300"]))
        text[at : at + data_.draw(st.integers(0, 40))] = what
    path = tmp_path / "damaged.json"
    path.write_bytes(text)
    try:
        summary = summarise(path)
    except TraceError:
        return
    assert summary.events >= 0


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(at=st.integers(0, 2800), byte=st.integers(0, 255))
def test_no_damage_of_the_packed_file_makes_it_fall_over(data, tmp_path, at, byte):
    packed = bytearray((data / "field" / "hta__event_sync.json.gz").read_bytes())
    packed[at % len(packed)] = byte
    path = tmp_path / "damaged.json.gz"
    path.write_bytes(packed)
    with contextlib.suppress(TraceError):
        assert summarise(path).file == path.name


@pytest.mark.parametrize(
    "text",
    [
        b'{"traceEvents":[' + b"[" * 100_000 + b"]" * 100_000 + b"]}",
        b'{"traceEvents":[{"ph":"X","args":' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"}]}",
    ],
    ids=["array", "arguments"],
)
def test_an_event_nested_without_end_is_left_out(text):
    events, reader = read(text)
    assert (events, reader.dropped) == ([], 1)


def test_text_without_an_edge_between_events_costs_no_more_than_its_length(monkeypatch):
    monkeypatch.setattr("midwatch.trace.split._EVENT_LIMIT", 100_000)
    endless = json.dumps({**EVENT, "name": "x" * 400_000}).encode()
    first, last = json.dumps(EVENT).encode(), json.dumps({**EVENT, "ts": 9}).encode()
    text = b'{"traceEvents": [' + b",".join([first, endless, first, last]) + b"]}"
    events, reader = read(*(text[at : at + 50_000] for at in range(0, len(text), 50_000)))
    assert events[0].ts == 1.5
    assert events[-1].ts == 9
    assert reader.dropped >= 1


def test_times_that_are_no_numbers_do_not_become_the_origin(tmp_path):
    path = tmp_path / "t.json"
    lost = [{**EVENT, "ts": "NaN"}, {**EVENT, "ts": "x"}]
    path.write_bytes(document([*lost, EVENT]))
    assert len(load(path).ops) == 1
    path.write_bytes(document(lost))
    with pytest.raises(TraceError, match="no timed events"):
        load(path)


def test_kernels_without_any_call_that_launched_them_are_described(tmp_path):
    kernel = {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "dur": 2}
    path = tmp_path / "t.json"
    path.write_bytes(document([{**kernel, "ts": at} for at in (1, 10, 20)], before='"deviceProperties": [{"id": {}}],'))
    assert summarise(path).device.kernels == 3


@pytest.mark.parametrize("damage", [{"unix_ns": 10**30}, {"weight_ns": -(10**19)}, {"late_ns": 1 << 63}, {"stack": 7}])
def test_a_sample_that_cannot_be_of_this_trace_is_left_out(tmp_path, damage):
    good = {"unix_ns": 10, "thread_id": 2, "stack": 0, "weight_ns": 1}
    capture = {"capture_id": "c", "reason": "demand", "state": "done"}
    resource = {"agent_id": "a", "service": "s"}
    tracks = {"resource": resource, "capture": capture, "stacks": [[]], "samples": [good, {**good, **damage}]}
    path = tmp_path / "t.json"
    path.write_bytes(document([EVENT], before=f'"midwatch": {json.dumps(tracks)},'))
    assert len(Samples(load(path)).of(2).at) == 1
    assert summarise(path).events == 1
