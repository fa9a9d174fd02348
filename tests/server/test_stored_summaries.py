"""What is shown of a stored summary is what the raw trace says: finding for finding."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import msgspec
import pytest
from isal import igzip
from midwatch.model.capture import Capture
from midwatch.model.tracks import Tracks
from midwatch.trace import TraceError, summarise
from midwatch.wire import from_message, to_message
from midwatch_client.offline import analyse
from midwatch_client.render import sources
from midwatch_proto.v1 import query_pb2
from midwatch_server.diagnosis import document

DATA = Path(__file__).parents[1] / "data"
BESIDE = Path(__file__).parents[3] / "shared" / "field" / "traces"
"""Other people's traces of some megabytes, where they lie beside the checkout."""
TRACES = sorted([*DATA.rglob("*.json.gz"), *BESIDE.glob("*.json.gz")])
LARGEST = 64 << 10
"""Bytes of a summary on the wire."""


class Head(msgspec.Struct):
    midwatch: Tracks | None = None


def capture_of(path, summary):
    """The capture that an agent sends of the file: its own where the file holds it."""
    known = Capture("", "demand", "done")
    with igzip.open(path) as file:
        text = file.read()
    if b'"midwatch"' in text[:64]:
        known = msgspec.json.decode(text, type=Head).midwatch.capture
    return dataclasses.replace(known, capture_id="w", state="done", summary=summary, workload=summary.workload)


@pytest.mark.parametrize("path", TRACES, ids=lambda path: f"{path.parent.name}-{path.name.split('.')[0][:40]}")
async def test_show_says_of_the_stored_summary_what_analyze_says_of_the_file(path, peer, make):
    try:
        summary = summarise(path)
    except TraceError:
        return
    assert to_message(summary).ByteSize() <= LARGEST
    await peer.upload(make.batch(capture_of(path, summary)))
    answer = await peer.query.GetCapture(query_pb2.GetCaptureRequest(capture_id="w"))
    shown, read = document(sources.of_capture(from_message(answer.capture))), document(analyse(path))
    for key in ("verdict", "reason", "findings", "notes", "window", "device", "timeline"):
        assert shown[key] == read[key], key
    assert from_message(answer.capture).capture.summary == summary
