"""What a broken or hostile agent sent is shown as text, in part where it is no sense, and never as a traceback."""

import ast
import gzip
import io
import json
import re
from dataclasses import fields, is_dataclass, replace
from enum import Enum
from pathlib import Path

import midwatch_client
import pytest
from midwatch.model.capture import Capture
from midwatch.model.finding import Diagnosis, Finding, Kind, Verdict
from midwatch.model.incident import CaptureDetail, Incident, IncidentDetail, Occurrence, SpikeDetail
from midwatch.model.requests import RequestRecord
from midwatch.model.resource import Resource
from midwatch.model.site import Site
from midwatch.model.spike import Baseline, Spike
from midwatch.model.status import AgentStatus, AgentView, Part
from midwatch.model.trace import Lane, Timeline, TraceSummary
from midwatch_client.console import Cell, PlainConsole, line, shortened
from midwatch_client.render import sources
from midwatch_client.render.diff import diff_markdown, print_diff
from midwatch_client.render.html import to_html
from midwatch_client.render.markdown import to_markdown
from midwatch_client.render.tables import incidents_table
from midwatch_client.render.terminal import print_report
from midwatch_proto.v1 import trigger_pb2
from midwatch_server.diagnosis.diff import compare
from midwatch_server.visible import visible

EVIL = "\x1b]0;mine\x07[red]|\n\u202e\x9b1m`"
SEEN = r"\x1b]0;mine\x07[red]|\n\u202e\x9b1m`"
PACKAGE = Path(midwatch_client.__file__).parent


def poisoned(value, evil=EVIL):
    """``value`` with every text in it hostile."""
    if isinstance(value, str) and not isinstance(value, Enum):
        return evil
    if is_dataclass(value):
        return replace(value, **{field.name: poisoned(getattr(value, field.name), evil) for field in fields(value)})
    return tuple(poisoned(item, evil) for item in value) if isinstance(value, tuple) else value


def assert_text_alone(*texts):
    for text in texts:
        assert {one for one in text if not one.isprintable()} <= {"\n"}


RESOURCE = Resource("a1", "ranker", "1", host="night-1", pid=4711, torch="2.13.0")
SITE = Site("shop/cart.py", 33, "trim", exact=True)
FINDING = Finding(Kind.GC_PAUSE, "title", SITE, 100.0, 0.9, 99.0, 1.0, 2, 0.9, ("evidence",), related_site=SITE)
INCIDENT = Incident("i", "v1:x", "ranker", "/rank", Kind.GC_PAUSE, "title", 4, 1, 2, latest=FINDING)
SUMMARY = TraceSummary(timeline=Timeline(0.0, 8.0, (Lane("host", "host", (100, 0, 50)),)))
CAPTURE = Capture("c", "demand", "done", summary=SUMMARY)
DIAGNOSIS = Diagnosis(Verdict.FINDINGS, (FINDING,), (FINDING,), reason="reason")
SPIKE = Spike("s", RequestRecord(7, "/rank", 1, 5, thread_id=1), 1.0, "sketch", Baseline(10, 1.0))
DETAIL = IncidentDetail(INCIDENT, (Occurrence("o", "i", 9, "a1", FINDING),) * 2, capture=CAPTURE, resource=RESOURCE)


@pytest.fixture
def hostile(script):
    """A collector that holds nothing but hostile names."""
    status = AgentStatus(5, detail="x", engine="x", parts=(Part("x", "failed", "why"),), drops=(("x", 3),))
    script.agents = [poisoned(AgentView(RESOURCE, status, connected=True))]
    script.incidents = [poisoned(INCIDENT), poisoned(replace(INCIDENT, latest=None))]
    script.details["inc"] = poisoned(DETAIL)
    script.captures["cap"] = poisoned(CaptureDetail(CAPTURE, DIAGNOSIS, RESOURCE))
    script.spikes["spi"] = poisoned(SpikeDetail(SPIKE, DIAGNOSIS, RESOURCE))
    return script


@pytest.mark.parametrize("columns", ["60", "400"])
@pytest.mark.parametrize(
    "command", ["agents", "incidents", "show inc", "show cap", "show spi", "show inc --md", "doctor", "diff cap cap"]
)
def test_names_neither_steer_the_terminal_nor_read_as_markup(hostile, run, command, columns):
    shown = run(*command.split(), COLUMNS=columns)
    assert shown.exception is None or isinstance(shown.exception, SystemExit)
    assert_text_alone(shown.stdout, shown.stderr)
    if columns == "400" and command not in ("doctor", "show inc --md", "diff cap cap"):
        assert SEEN in shown.stdout


def test_progress_and_refusals_are_text_alone(hostile, run):
    agent = trigger_pb2.TriggerEvent(state=trigger_pb2.TRIGGER_STATE_QUEUED, capture_id="c").agent
    agent.service, agent.host = EVIL, EVIL
    hostile.steps = [
        trigger_pb2.TriggerEvent(state=trigger_pb2.TRIGGER_STATE_QUEUED, capture_id=EVIL, agent=agent),
        trigger_pb2.TriggerEvent(state=trigger_pb2.TRIGGER_STATE_FAILED, capture_id=EVIL, detail=EVIL),
    ]
    profiled = run("profile", "ranker")
    assert profiled.exit_code == 1
    assert f"asked {SEEN} on {SEEN}" in profiled.stderr
    assert f"midwatch: {SEEN}\n" in profiled.stderr
    assert_text_alone(profiled.stderr)


def test_json_keeps_its_own_escapes(hostile, run):
    shown = run("agents", "--json")
    assert json.loads(shown.stdout)["items"][0]["resource"]["host"] == EVIL
    assert r"\u001b]0;mine" in shown.stdout


def test_a_trace_with_hostile_names(run, tmp_path):
    events = [
        {"ph": "X", "cat": "cpu_op", "name": f"{EVIL}{at}", "pid": 1, "tid": 1, "ts": 100 * at, "dur": 90, "args": {}}
        for at in range(40)
    ]
    file = tmp_path / "\x1b[31m.json.gz"
    file.write_bytes(gzip.compress(json.dumps({"schemaVersion": 1, "traceEvents": events}).encode()))
    for options in ((), ("--md",)):
        shown = run("analyze", str(file), *options)
        assert shown.exit_code == 0
        assert_text_alone(shown.stdout, shown.stderr)
    missing = run("analyze", str(tmp_path / "\x1b[31m"))
    assert r"\x1b[31m" in missing.stderr
    assert_text_alone(missing.stderr)


def test_markdown_is_neither_led_astray_nor_broken_by_names():
    evil = "a|b\nc <img src=x> ![i](http://e) __x__ `|` a_b_c `"
    report = sources.of_capture(poisoned(CaptureDetail(CAPTURE, DIAGNOSIS, RESOURCE), evil))
    text = to_markdown(replace(report, summary=SUMMARY))
    title = next(one for one in text.splitlines() if one.startswith("### 1. "))
    assert title.endswith(r"a\|b\\nc \<img src=x> !\[i](http://e) \_\_x\_\_ `|` a_b_c \`")
    compared = diff_markdown(compare(report, report, labels=(evil, evil)))
    assert not re.search(r"(?<!\\)<img", re.sub(r"(?<!\\)`[^`]*`", "", compared))
    rows = [one for one in compared.splitlines() if one.startswith("| ")]
    assert rows
    assert len({one.replace(r"\|", "").count("|") for one in rows}) <= 2


def test_a_name_cannot_end_the_drawing():
    lanes = (Lane("````", "host", (0, 0, 1)), Lane("device", "device", (100, 0)))
    report = sources.of_capture(
        CaptureDetail(replace(CAPTURE, summary=replace(SUMMARY, timeline=Timeline(0.0, 8.0, lanes))), DIAGNOSIS)
    )
    text = to_markdown(report)
    assert text.count("`````") == 2


@pytest.mark.parametrize("seed", range(40))
def test_forged_records_are_shown_as_far_as_they_go(forger, seed):
    """Lists without anything in them, numbers that are none, negative and enormous ones, names that steer."""
    made = forger(seed)
    detail = made.sent(IncidentDetail)
    reports = [
        sources.of_incident(detail),
        sources.of_capture(made.sent(CaptureDetail)),
        sources.of_spike(made.sent(SpikeDetail)),
    ]
    out = io.StringIO()
    console = PlainConsole(out, width=80)
    console.print(incidents_table([detail.incident], 0))
    for report in reports:
        print_report(report, console)
        assert_text_alone(to_markdown(report), to_html([report]))
    windows = [report for report in reports if report.summary is not None]
    if windows:
        compared = compare(windows[0], windows[-1], labels=("a", "b"))
        print_diff(compared, console)
        assert_text_alone(diff_markdown(compared))
    assert_text_alone(out.getvalue())
    assert not any(word in out.getvalue().split() for word in ("nan", "inf", "-inf"))


@pytest.mark.parametrize(
    "timeline",
    [
        Timeline(0.0, 8.0, (Lane("host", "host", (250, -7, 100)),)),
        Timeline(0.0, float("nan"), (Lane("host", "host", (100,)),)),
        Timeline(float("inf"), 8.0, (Lane("host", "host", (100,)),)),
        Timeline(0.0, -8.0, (Lane("host", "host", (100,)),)),
    ],
)
def test_show_survives_a_forged_timeline(script, run, timeline):
    script.captures["cap"] = CaptureDetail(replace(CAPTURE, summary=TraceSummary(timeline=timeline)), DIAGNOSIS)
    shown = run("show", "cap")
    assert (shown.exit_code, shown.exception) == (0, None)
    assert "gc_pause: title" in shown.stdout
    assert ("host  ███" in shown.stdout) == (timeline.duration_ms == 8 and timeline.start_ms == 0)


def test_what_is_no_number_is_null_in_json(script, run):
    finding = replace(FINDING, recoverable_ms=float("nan"), per_request_ms=float("inf"))
    script.captures["cap"] = CaptureDetail(CAPTURE, Diagnosis(Verdict.FINDINGS, (finding,)))
    shown = run("show", "cap", "--json")
    assert "NaN" not in shown.stdout
    assert json.loads(shown.stdout)["findings"][0]["recoverable_ms"] is None


def test_a_verdict_of_a_newer_collector_is_said_not_to_be_known(script, run):
    script.captures["cap"] = CaptureDetail(CAPTURE, Diagnosis(Verdict.UNKNOWN, reason="They say."))
    shown = run("show", "cap")
    assert shown.exit_code == 0
    assert "does not know" in shown.stdout


def test_visible():
    assert visible("plain ü 日本 [x]") == "plain ü 日本 [x]"
    assert visible(EVIL) == SEEN
    assert visible("\ud800\u200b\x85\u2067") == r"\ud800\u200b\x85\u2067"


def test_the_console_takes_every_text_as_it_is():
    out = io.StringIO()
    console = PlainConsole(out, width=80)
    console.print("[red]a[/red] :smile: \x1b[2J")
    console.print(line(("\x9b", "bold"), ("[b]", "")))
    assert out.getvalue() == "[red]a[/red] :smile: \\x1b[2J\n\\x9b[b]\n"


@pytest.mark.parametrize(
    ("word", "width", "text"),
    [
        ("app/ranker.py:88", 20, "app/ranker.py:88"),
        ("shop/app/ranker.py:88", 18, "…/app/ranker.py:88"),
        ("(shop/app/ranker.py:88)", 18, "…/ranker.py:88)"),
        ("shop/app/ranker.py:88", 8, "…r.py:88"),
        ("no_place_but_a_name", 8, "no_place_but_a_name"),
    ],
)
def test_a_place_is_cut_on_the_left(word, width, text):
    assert shortened(word, width) == text


def test_a_cell_breaks_between_words_and_keeps_places_whole():
    out = io.StringIO()
    PlainConsole(out, width=12).print(Cell("in shop/app/ranker.py:88 sometimes"))
    assert [one.strip() for one in out.getvalue().splitlines()] == ["in", "…anker.py:88", "sometimes"]


def test_text_enters_the_terminal_in_one_place():
    """Whoever writes for a person goes through `console`, `say` or `progress`; the rest writes documents."""
    makers, writers = [], []
    for file in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call):
                called = ast.unparse(node.func)
                if called.startswith(("Text", "Console")):
                    makers.append(file.name)
                if called in ("sys.stdout.write", "sys.stderr.write", "print"):
                    writers.append(file.name)
    assert set(makers) == {"console.py"}
    # Markdown and JSON documents, the version, and a word of the hook of `midwatch run`, which is not ours to import.
    assert set(writers) == {"common.py", "analyze.py", "diff.py", "show.py", "cli.py", "sitecustomize.py"}
