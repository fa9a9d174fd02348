"""From one import line to an incident with file and line, and a profile on demand; everything in real processes."""

import json
import sys
import time

import pytest
from midwatch.model.finding import Kind
from midwatch_client.api import Client

pytestmark = pytest.mark.process


def test_a_spike_becomes_an_incident_with_file_and_line(world, client: Client):
    world.collector()
    world.service("spiky.py")
    line = world.fault_line("spiky.py")

    def found():
        for incident in client.incidents("shop", kind=Kind.GC_PAUSE):
            site = incident.latest.site
            if site is not None and site.line == line:
                return incident
        return None

    incident = world.eventually("an incident on the planted line", found)
    assert incident.latest.site.file.endswith("spiky.py")
    assert incident.latest.site.exact
    assert incident.latest.site.function == "tidy"
    assert incident.route == "score"
    assert incident.latest.per_request_ms > 1.0

    listed = json.loads(world.midwatch("incidents", "--service", "shop", "--json").stdout)
    assert incident.incident_id in [one["incident_id"] for one in listed["items"]]
    shown = world.midwatch("show", incident.incident_id[:8])
    assert shown.returncode == 0, shown.stderr
    assert f"spiky.py:{line}" in shown.stdout
    report = json.loads(world.midwatch("show", incident.incident_id[:8], "--json").stdout)
    assert report["schema"] == "midwatch.report.v1"
    assert report["findings"][0]["site"]["line"] == line


def test_the_agents_are_listed_with_what_is_off(world, client: Client):
    world.collector()
    service = world.service("spiky.py", "--every", "0")
    world.eventually("an agent", lambda: client.agents("shop", connected_only=True))
    # Its first status follows within a second.
    (agent,) = world.eventually("its status", lambda: [one for one in client.agents("shop") if one.status.parts])
    assert agent.resource.pid == service.pid
    shown = world.midwatch("agents")
    assert shown.returncode == 0, shown.stderr
    assert str(service.pid) in shown.stdout
    nvml = [part for part in agent.status.parts if "nvml" in part.name.lower() or "gpu" in part.name.lower()]
    assert [part.state for part in nvml if part.state != "on"], "this machine has no NVML, and the status must say so"
    assert all(part.detail for part in nvml)


def test_a_profile_on_demand_and_its_trace_say_the_same(world, client: Client):
    world.collector()
    trace = world.folder / "trace.json.gz"
    # The service knows nothing of Midwatch: `midwatch run` attaches the agent.
    runner = world.start(
        "-m", "midwatch_client", "run", "--service", "ranker", "--", sys.executable, str(world.services / "ranker.py")
    )
    assert runner.stdout.readline() == "up\n", world.stderr(runner)
    world.eventually("the agent is attached", lambda: client.agents("ranker", connected_only=True))
    profiled = world.midwatch("profile", "ranker", "--requests", "20", "--json", "-o", str(trace))
    assert profiled.returncode == 0, profiled.stderr
    steps = ("asked", "waiting for the window to open", "window open", "reading the trace", "wrote")
    said = profiled.stderr.splitlines()
    assert [line.startswith(step) for line, step in zip(said, steps, strict=True)] == [True] * 5, said
    report = json.loads(profiled.stdout)
    first = report["findings"][0]
    assert first["kind"] == "host_gap"
    assert (first["site"]["line"], first["site"]["exact"]) == (world.fault_line("ranker.py"), True)
    assert report["window"]["requests"] >= 18
    analysed = world.midwatch("analyze", str(trace), "--json")
    assert analysed.returncode == 0, analysed.stderr
    again = json.loads(analysed.stdout)
    assert [(one["kind"], one["site"]) for one in again["findings"]] == [
        (one["kind"], one["site"]) for one in report["findings"]
    ]
    assert again["verdict"] == report["verdict"]


def test_whoever_waits_hears_of_the_open_window_while_it_records(world, client: Client):
    world.collector()
    runner = world.start(
        "-m", "midwatch_client", "run", "--service", "ranker", "--", sys.executable, str(world.services / "ranker.py")
    )
    assert runner.stdout.readline() == "up\n", world.stderr(runner)
    world.eventually("the agent is attached", lambda: client.agents("ranker", connected_only=True))
    seen: list[tuple[str, int]] = []
    detail = client.profile("ranker", seconds=1.0, on_progress=lambda step: seen.append((step.state, time.time_ns())))
    assert [state for state, _ in seen] == ["queued", "sent", "open", "done", "stored"]
    heard_ns = dict(seen)["open"]
    assert detail.capture.start_unix_ns < heard_ns < detail.capture.end_unix_ns


def test_a_service_that_nobody_knows_is_said_so(world):
    world.collector()
    asked = world.midwatch("profile", "nobody", "--requests", "3")
    assert asked.returncode == 1
    assert "nobody" in asked.stderr
    assert len(asked.stderr.strip().splitlines()) == 1
    shown = world.midwatch("show", "0123456789")
    assert (shown.returncode, shown.stdout) == (1, "")
    assert "midwatch incidents" in shown.stderr
