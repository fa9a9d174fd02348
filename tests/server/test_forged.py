"""Real documents with forged parts, from the wire to what people see: stored or refused, never a traceback."""

from __future__ import annotations

import io
import json
import logging
import math
import os
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from midwatch.model.capture import Capture
from midwatch.trace import summarise
from midwatch.wire import from_message, to_message
from midwatch_client.render import sources
from midwatch_client.render.html import to_html
from midwatch_client.render.markdown import to_markdown
from midwatch_client.render.terminal import print_report
from midwatch_proto.v1 import ingest_pb2, query_pb2
from midwatch_server.diagnosis import document
from midwatch_server.diagnosis.diff import compare, diff_document
from rich.console import Console

DATA = Path(__file__).parents[1] / "data"
EXAMPLES = int(os.environ.get("MIDWATCH_FORGED_EXAMPLES", "40"))
"""More for a longer search, which then draws anew each time: a thousand take some minutes."""
FLOATS = st.sampled_from([0.0, -0.0, 5e-324, 1e-9, 0.5, 1.0, 3.0, 1e5, 1e11, -1.0, math.nan, math.inf, 1e300])
INTS = st.sampled_from([0, 1, 2, 3, 7, 1000, 2**31, 2**53, 2**63 - 1, -1, -(2**63)])
TEXTS = st.sampled_from(["", "rank", "python", "blocked", "item", "x" * 600, "\x1b[31m\u202e", "<b>|*`", "é\0"])


def kinds_of_summary():
    """Summaries with as many kinds of facts as there are."""
    wanted = ["h200/gc_pause.json.gz", "h200/item_metric.json.gz", "h200/tiny_kernels.json.gz"]
    found = [DATA / name for name in wanted] + sorted((DATA / "kinds").glob("*.json.gz"))
    return [summarise(path) for path in found if path.exists()]


@pytest.fixture(scope="module")
def originals(make):
    captures = [
        Capture(f"c{number}", "demand", "done", start_unix_ns=make.T0, summary=summary, baseline=make.spike().baseline)
        for number, summary in enumerate(kinds_of_summary())
    ]
    assert len(captures) > 5
    records = [ingest_pb2.Record(capture=to_message(capture)) for capture in [*captures, make.capture()]]
    return [*records, ingest_pb2.Record(spike=to_message(make.spike()))]


def forge(draw, message):
    """Change one thing somewhere in ``message``."""
    field = draw(st.sampled_from(list(message.DESCRIPTOR.fields)))
    value = getattr(message, field.name)
    if field.type == field.TYPE_MESSAGE:
        if hasattr(value, "add"):
            what = draw(st.sampled_from(["change", "change", "add", "clear", "double"]))
            if what == "clear":
                message.ClearField(field.name)
            elif what == "double":
                value.extend(list(value))
            else:
                new = what == "add" or not value
                forge(draw, value.add() if new else value[draw(st.integers(0, len(value) - 1))])
        elif message.HasField(field.name) and draw(st.integers(0, 7)) == 0:
            message.ClearField(field.name)
        else:
            forge(draw, value)
        return
    item = draw(one_of(field))
    if hasattr(value, "append"):
        value.append(item)
    else:
        setattr(message, field.name, item)


def one_of(field):
    if field.type == field.TYPE_DOUBLE:
        return FLOATS
    return TEXTS if field.type == field.TYPE_STRING else st.booleans() if field.type == field.TYPE_BOOL else INTS


def shown(report):
    """Everything that is made of a report must come out of it."""
    json.dumps(document(report), allow_nan=False)
    console = Console(file=io.StringIO(), width=100)
    print_report(report, console)
    assert console.file.getvalue()
    assert to_markdown(report)
    assert to_html([report])
    if report.summary is not None:
        json.dumps(diff_document(compare(report, report)), allow_nan=False)


@given(data=st.data())
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    derandomize="MIDWATCH_FORGED_EXAMPLES" not in os.environ,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)
async def test_a_forged_record_is_stored_or_refused_and_what_is_stored_is_shown(data, peer, make, originals, caplog):
    caplog.set_level(logging.INFO)
    caplog.clear()
    record = ingest_pb2.Record()
    record.CopyFrom(data.draw(st.sampled_from(originals), label="original"))
    kind = record.WhichOneof("record")
    inside = getattr(record, kind)
    name = os.urandom(8).hex()
    for _ in range(data.draw(st.integers(1, 6))):
        forge(data.draw, inside.summary if kind == "capture" and data.draw(st.integers(0, 9)) else inside)
    setattr(inside, f"{kind}_id", name)
    (answer,) = await peer.upload(make.batch(make.stats(), record, make.stats("other")))
    assert answer.state == ingest_pb2.BATCH_STATE_ACCEPTED
    assert answer.rejected_records == bool(answer.reason)
    assert "failed" not in answer.reason
    if not answer.rejected_records:
        if kind == "capture":
            found = await peer.query.GetCapture(query_pb2.GetCaptureRequest(capture_id=name))
            shown(sources.of_capture(from_message(found.capture)))
        else:
            found = await peer.query.GetSpike(query_pb2.GetSpikeRequest(spike_id=name))
            shown(sources.of_spike(from_message(found.spike)))
        for one in (await peer.query.ListIncidents(query_pb2.ListIncidentsRequest(limit=3))).incidents:
            detail = await peer.query.GetIncident(query_pb2.GetIncidentRequest(incident_id=one.incident_id))
            shown(sources.of_incident(from_message(detail.incident)))
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR] == []
