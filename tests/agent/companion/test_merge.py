import gzip
import json

import pytest
from midwatch.companion.display import CATEGORY, PID
from midwatch.companion.merge import MergeError, merge
from midwatch.model.capture import Capture
from midwatch.model.plain import from_plain, to_plain
from midwatch.model.requests import RequestRecord, UnitRecord, Workload
from midwatch.model.resource import Resource
from midwatch.model.samples import CompileEvent, GcPause, LockWait
from midwatch.model.site import Frame
from midwatch.model.tracks import SampleRow, ThreadName, Tracks

BASE_NS = 1_700_000_000_000_000_000
TRACKS = Tracks(
    resource=Resource("me", "reco"),
    capture=Capture("w1", "demand", "done"),
    requests=(
        RequestRecord(1, "rank", BASE_NS + 1_000_000, 4_000_000),
        RequestRecord(2, "rank", BASE_NS + 2_000_000, 1_000_000),
        RequestRecord(3, "rank", BASE_NS + 6_000_000, 1_000_000),
    ),
    units=(UnitRecord(1, "Ranker", BASE_NS + 1_500_000, 2_000_000, thread_id=7, workload=Workload(("float32[8]",))),),
    frames=(Frame("app.py", 12, "rank"), Frame("app.py", 40, "serve")),
    stacks=((0, 1), ()),
    samples=(SampleRow(BASE_NS + 3_000_000, 7, 0, 500_000), SampleRow(BASE_NS + 4_000_000, 7, 1, 500_000)),
    gc=(GcPause(BASE_NS + 2_000_000, 300_000, 2, 10, 7, 70, explicit=True),),
    locks=(LockWait(BASE_NS + 5_000_000, 1_000_000, 7, (Frame("app.py", 5, "wait"),), "Lock RANKS_LOCK"),),
    compiles=(CompileEvent(BASE_NS + 1_000_000, 2_000_000, "DYNAMO", "0/1"),),
    threads=(ThreadName(7, 70, "batcher"),),
)
EVENT = '{\n    "ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 9, "tid": 7, "ts": 10.5, "dur": 2.0\n  }'
KEY = f'"baseTimeNanoseconds": {BASE_NS}'
LAYOUTS = {
    "base before the events": f'\n {{\n "schemaVersion": 1, {KEY},\n"traceEvents": [\n{EVENT}\n]}}',
    "base after the events": f'{{ "schemaVersion": 1, "traceEvents": [\n{EVENT}\n], {KEY} }}',
}


@pytest.fixture
def files(tmp_path):
    trace, tracks, out = tmp_path / "trace.json", tmp_path / "tracks.json", tmp_path / "out.json.gz"
    tracks.write_text(json.dumps(to_plain(TRACKS)))
    return trace, tracks, out


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_tracks_stand_first_and_are_drawn_and_the_rest_is_untouched(layout, files):
    trace, tracks, out = files
    trace.write_text(LAYOUTS[layout])
    merge(trace, tracks, out)
    text = gzip.decompress(out.read_bytes()).decode()
    document = json.loads(text)
    assert next(iter(document)) == "midwatch"
    assert from_plain(Tracks, document["midwatch"]) == TRACKS
    assert document["baseTimeNanoseconds"] == BASE_NS
    assert EVENT in text
    assert document["traceEvents"][-1] == json.loads(EVENT)
    drawn = document["traceEvents"][:-1]
    assert {event["pid"] for event in drawn} == {PID}
    spans = [event for event in drawn if event["ph"] == "X"]
    assert {event["cat"] for event in spans} == {CATEGORY}
    first = next(event for event in spans if event["name"] == "rank")
    assert (first["ts"], first["dur"]) == (1000.0, 4000.0)
    lanes = {event["tid"]: event["args"]["name"] for event in drawn if event["name"] == "thread_name"}
    by_lane = {name: [e["name"] for e in spans if e["tid"] == tid] for tid, name in lanes.items()}
    assert by_lane == {
        "requests": ["rank", "rank"],
        "requests (2)": ["rank"],
        "units of batcher 7": ["Ranker"],
        "samples of batcher 7": ["rank (app.py:12)", "no frame"],
        "garbage collection": ["generation 2"],
        "lock waits of batcher 7": ["Lock RANKS_LOCK"],
        "compilation": ["DYNAMO"],
    }
    for tid in lanes:
        ends = [0.0]
        for span in sorted((e for e in spans if e["tid"] == tid), key=lambda e: e["ts"]):
            assert span["ts"] >= ends[-1], "spans on one lane never overlap"
            ends.append(span["ts"] + span["dur"])


def test_a_trace_without_events_stays_valid(files):
    trace, tracks, out = files
    trace.write_text('{"traceEvents": [ ], "x": 1}')
    merge(trace, tracks, out)
    assert json.loads(gzip.decompress(out.read_bytes()))["x"] == 1


def test_without_tracks_the_trace_is_packed_as_it_is(files):
    trace, _, out = files
    trace.write_text(LAYOUTS["base after the events"])
    merge(trace, None, out)
    assert gzip.decompress(out.read_bytes()) == trace.read_bytes()


def test_a_long_head_and_a_split_key_are_found(files, monkeypatch):
    trace, tracks, out = files
    trace.write_text(json.dumps({"meta": "x" * 3000, "traceEvents": [{"ph": "X"}], "baseTimeNanoseconds": 5}))
    monkeypatch.setattr("midwatch.companion.merge._PIECE", 1500)
    merge(trace, tracks, out)
    assert json.loads(gzip.decompress(out.read_bytes()))["traceEvents"][-1] == {"ph": "X"}


@pytest.mark.parametrize(
    ("trace_text", "tracks_text", "says"),
    [
        ("[1, 2]", "{}", "holds no events"),
        ("", "{}", "holds no events"),
        ('{"traceEvents": []}', "{", "cannot be read"),
        ('{"traceEvents": []}', '{"requests": [{}]}', "cannot be read"),
    ],
)
def test_what_cannot_be_put_together_is_one_sentence(files, trace_text, tracks_text, says):
    trace, tracks, out = files
    trace.write_text(trace_text)
    tracks.write_text(tracks_text)
    with pytest.raises(MergeError, match=says):
        merge(trace, tracks, out)
