"""What the commands print, asked of a real gRPC server with answers made by hand."""

import json
import platform
from dataclasses import replace
from pathlib import Path

from midwatch.model.capture import Capture
from midwatch.model.finding import Diagnosis, Finding, Kind, Verdict
from midwatch.model.incident import CaptureDetail, Incident, IncidentDetail
from midwatch.model.resource import Resource
from midwatch.model.site import Site
from midwatch.model.status import AgentStatus, AgentView, Part
from midwatch_proto.v1 import trigger_pb2
from typer.testing import Result

RESOURCE = Resource("a1", "ranker", host="night-1", pid=4711, torch="2.13.0")
TITLE = "A collection by hand"
SITE = Site("shop/cart.py", 33, "trim", exact=True)
FINDING = Finding(Kind.GC_PAUSE, TITLE, SITE, 100.0, 0.9, 99.0, 1.0, 2, 0.9)
INCIDENT = Incident("inc123", "v1:x", "ranker", "/rank", Kind.GC_PAUSE, "A collection by hand", 4, 1, 2, latest=FINDING)
CAPTURE = CaptureDetail(Capture("cap123", "demand", "done"), Diagnosis(Verdict.FINDINGS, (FINDING,)), RESOURCE)


def document(result: Result) -> dict:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_agents_with_what_is_off(script, run):
    parts = (Part("gpu", "unavailable", "no NVML here"), Part("gc", "on"))
    status = AgentStatus(5, requests=12, parts=parts, drops=(("spike_rate", 142), ("news of tomorrow", 3)))
    script.agents = [AgentView(RESOURCE, status, connected=True)]
    shown = run("agents", COLUMNS="400").stdout
    for word in (
        "ranker",
        "night-1",
        "4711",
        "12",
        "gpu: no NVML here",
        "142 spikes counted but not",
        "3 records lost (news of tomorrow)",
    ):
        assert word in shown
    narrow = run("agents", COLUMNS="80").stdout.splitlines()
    assert all(len(row.rstrip()) <= 80 for row in narrow)
    assert "  gpu: no NVML here" in map(str.rstrip, narrow)
    assert next(row for row in narrow if "4711" in row).split()[:4] == ["ranker", "4711", "on", "12"]
    listed = document(run("agents", "--all", "--json"))
    assert listed["schema"] == "midwatch.agents.v1"
    assert listed["items"][0]["resource"]["pid"] == 4711
    assert not script.asked[-1].connected_only


def test_an_agent_whose_windows_fail_says_so_once(script, run):
    line = "2 failed, the last one since the disk took no trace"
    latch = "the crash latch is off"
    failed = AgentStatus(5, "degraded", f"windows failed: {line}", windows_failed=2)
    failed = replace(failed, parts=(Part("windows", "failed", line), Part("gc", "on", "fine")))
    amiss = AgentStatus(5, parts=(Part("windows", "on", latch),))
    here = replace(RESOURCE, host=platform.node())
    script.agents = [AgentView(here, failed, connected=True), AgentView(replace(here, pid=5), amiss, connected=True)]
    wide = {"COLUMNS": "400"}
    for shown in (run("agents", **wide).stdout, run("doctor", **wide).stdout):
        assert shown.count(line) == 1
        assert f"windows: {latch}" in shown
        assert "fine" not in shown
    assert document(run("agents", "--json"))["items"][0]["status"]["windows_failed"] == 2
    shown = run("doctor", "--json")
    assert shown.exit_code == 1, "a service here has failed"
    parts = {part["name"]: part for part in json.loads(shown.stdout)["items"]}
    assert parts["agent ranker, pid 4711"] == {
        "name": "agent ranker, pid 4711",
        "state": "failed",
        "detail": f"windows failed: {line}",
    }
    assert parts["agent ranker, pid 5"]["state"] == "on"


def test_no_agents_is_no_error_and_names_the_remedy(run):
    shown = run("agents")
    assert shown.exit_code == 0
    assert "import midwatch.auto" in shown.stdout


def test_incidents(script, run):
    script.incidents = [INCIDENT]
    assert "cart.py:33" in run("incidents").stdout
    listed = document(run("incidents", "--since", "2h", "--kind", "gc_pause", "--json"))
    assert listed["schema"] == "midwatch.incidents.v1"
    assert listed["items"][0]["latest"]["site"]["line"] == 33
    assert script.asked[-1].since_unix_ns > 0
    script.incidents = []
    assert run("incidents").stdout == "No incidents.\n"


def test_show_takes_an_incident_or_a_capture(script, run):
    script.details["inc123"], script.captures["cap123"] = IncidentDetail(INCIDENT), CAPTURE
    assert "shop/cart.py:33" in run("show", "inc").stdout
    assert document(run("show", "cap", "--json"))["schema"] == "midwatch.report.v1"
    assert "shop/cart.py" in run("show", "cap", "--md").stdout
    missing = run("show", "nothing")
    assert (missing.exit_code, missing.stdout) == (1, "")
    assert "`midwatch incidents`" in missing.stderr


def events(*states: int, detail: str = "") -> list[trigger_pb2.TriggerEvent]:
    return [trigger_pb2.TriggerEvent(state=state, capture_id="cap123", detail=detail) for state in states]


def test_profile_prints_the_report_and_writes_the_trace(script, run, tmp_path: Path):
    script.captures["cap123"], script.pieces = CAPTURE, [b"trace"]
    states = (trigger_pb2.TRIGGER_STATE_QUEUED, trigger_pb2.TRIGGER_STATE_OPEN, trigger_pb2.TRIGGER_STATE_STORED)
    script.steps = events(*states)
    target = tmp_path / "trace.json.gz"
    profiled = run("profile", "ranker", "--requests", "20", "-o", str(target), "--json")
    assert document(profiled)["findings"][0]["kind"] == "gc_pause"
    assert profiled.stderr.splitlines() == ["asked …", "window open, recording …", f"wrote {target} (5 B)"]
    assert target.read_bytes() == b"trace"


def test_a_trace_that_cannot_be_had_costs_the_exit_code_but_not_the_report(script, run, tmp_path: Path):
    script.captures["cap123"] = CAPTURE
    script.steps = events(trigger_pb2.TRIGGER_STATE_STORED)
    profiled = run("profile", "ranker", "-o", str(tmp_path / "trace.json.gz"))
    assert profiled.exit_code == 1
    assert "shop/cart.py:33" in profiled.stdout
    assert "MIDWATCH_RAW_TRACES" in profiled.stderr


def test_no_wait_prints_the_id(script, run):
    script.steps = events(trigger_pb2.TRIGGER_STATE_QUEUED, trigger_pb2.TRIGGER_STATE_SENT)
    assert run("profile", "ranker", "--no-wait").stdout == "cap123\n"
    assert document(run("profile", "ranker", "--no-wait", "--json")) == {
        "schema": "midwatch.order.v1",
        "capture_id": "cap123",
    }
    script.steps = events(trigger_pb2.TRIGGER_STATE_REFUSED, detail="too soon after another window")
    refused = run("profile", "ranker", "--no-wait")
    assert (refused.exit_code, "too soon" in refused.stderr) == (1, True)


def test_trace_of_a_capture_or_of_an_incident_that_has_one(script, run, tmp_path: Path):
    script.details["inc123"] = IncidentDetail(INCIDENT, capture=CAPTURE.capture)
    script.pieces = [b"0123456789"]
    assert run("trace", "cap123", "-o", str(tmp_path / "a.json.gz")).exit_code == 0
    assert document(run("trace", "cap123", "-o", str(tmp_path / "b.json.gz"), "--json"))["bytes"] == 10
    unwritable = run("trace", "cap123", "-o", str(tmp_path / "none" / "c.json.gz"))
    assert unwritable.exit_code == 1
    assert "name another file" in unwritable.stderr


def test_an_incident_without_a_window_has_no_trace(script, run, tmp_path: Path):
    script.details["inc123"] = IncidentDetail(INCIDENT)
    asked = run("trace", "inc123", "-o", str(tmp_path / "a.json.gz"))
    assert asked.exit_code == 1
    assert "midwatch profile" in asked.stderr


def test_doctor_says_one_line_for_each_part(script, run):
    parts = {part["name"]: part for part in document(run("doctor", "--json"))["items"]}
    for name in ("python", "torch", "engine.direct", "engine.capped", "shim", "nvml", "grpcio", "collector"):
        assert parts[name]["state"] in ("on", "off", "unavailable")
        assert "\n" not in parts[name]["detail"]
    assert parts["collector"]["state"] == "on"
    assert parts["python"]["state"] == "on"
    assert "state folder" in run("doctor").stdout


def test_doctor_s_exit_code_says_whether_something_failed(run, monkeypatch, tmp_path):
    monkeypatch.delenv("MIDWATCH_COLLECTOR", raising=False)
    assert run("doctor").exit_code == 0
    gone = run("doctor", "--collector", "no-such-host.invalid:7171")
    assert gone.exit_code == 1
    assert "the host name 'no-such-host.invalid' does not resolve" in gone.stdout
    assert "start one" not in gone.stdout
    assert run("doctor", MIDWATCH_STATE_DIR="/proc/midwatch").exit_code == 1
    assert run("doctor", MIDWATCH_GPU_HZ="fast", COLUMNS="400").exit_code == 1
    assert "exit code is 1" in run("doctor", "--help").stdout


def test_db_upgrade_makes_a_database_and_leaves_one_that_is_there(run, tmp_path: Path):
    database = str(tmp_path / "midwatch.db")
    made = document(run("db", "upgrade", "--db", database, "--json"))
    assert made["before"] == ""
    assert made["after"]
    assert document(run("db", "upgrade", "--db", database, "--json"))["before"] == made["after"]
    assert "already" in run("db", "upgrade", "--db", database).stdout
    (tmp_path / "notes.txt").write_text("no database at all, but long enough to look like one " * 40)
    broken = run("db", "upgrade", "--db", str(tmp_path / "notes.txt"))
    assert broken.exit_code == 1
    assert broken.stderr.startswith("midwatch: ")
