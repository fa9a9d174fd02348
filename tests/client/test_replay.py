"""`midwatch replay` on tables as people have them: what it prints, and what it says of those that it cannot read."""

import gzip
import json
import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from midwatch_client import columns, latencies, replaying
from midwatch_client.cli import build
from midwatch_client.render.replaywords import RULES
from rich.status import Status
from typer.testing import CliRunner


def invoke(*arguments, text=None):
    return CliRunner().invoke(build(), ["replay", *map(str, arguments)], input=text, env={"COLUMNS": "110"})


def document(*arguments, text=None):
    result = invoke(*arguments, "--json", text=text)
    assert result.exit_code == 0, result.stderr
    return json.loads(result.stdout)


def only(*arguments, text=None):
    (route,) = document(*arguments, text=text)["routes"]
    return route


def steady(count, seed=1):
    generator = random.Random(seed)
    return [round(generator.gauss(5, 0.3), 3) for _ in range(count)]


def refused(text, *arguments):
    result = invoke("-", *arguments, text=text)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.count("\n") == 1
    assert result.stderr.startswith("midwatch: standard input")
    return result.stderr.removeprefix("midwatch: ").rstrip("\n")


@pytest.fixture
def table(tmp_path) -> Path:
    """Two routes, the first with five spikes in a row at line 402, the second too short to tell."""
    path = tmp_path / "night.csv"
    rows = [("/rank", 90.0 if 400 <= number < 405 else one) for number, one in enumerate(steady(600))]
    rows += [("/health", 1.0)] * 30
    lines = [f"{1796000000 + number / 4:.2f},{route},{one}" for number, (route, one) in enumerate(rows)]
    path.write_text("\n".join(["time,route,latency_ms", *lines]) + "\n")
    return path


def test_what_was_flagged_with_line_time_deadline_and_rule(table):
    found = document(table)
    assert found["schema"] == "midwatch.replay.v1"
    named = {"latency": "latency_ms", "ended": "time", "started": None, "route": "route", "shape": None}
    assert (found["columns"], found["latency_unit"]) == (named, "ms")
    assert (found["file"], found["requests"], found["flagged"], found["out_of_order"]) == ("night.csv", 630, 5, 0)
    rank, health = found["routes"]
    assert (rank["route"], rank["requests"], rank["warmup_requests"], rank["rule"]) == ("/rank", 600, 20, "sketch")
    assert rank["judged_by_rule"] == {"low_traffic": 200, "sketch": 380}
    assert rank["p50_ms"] == pytest.approx(5, rel=0.02)
    assert rank["max_ms"] == 90.0
    assert rank["baseline"]["requests"] == 600 - 20 - 5
    assert [(one["line"], one["request"], one["told"]) for one in rank["spikes"]] == [
        (402, 401, True),
        (403, 402, True),
        (404, 403, True),
        (405, 404, False),
        (406, 405, False),
    ]
    first = rank["spikes"][0]
    assert (first["time"], first["ended_ns"]) == ("1796000100.00", 1_796_000_100 * 10**9)
    assert (first["latency_ms"], first["rule"]) == (90.0, "sketch")
    assert first["times_p50"] == pytest.approx(18, rel=0.02)
    assert first["deadline_ms"] == pytest.approx(15, rel=0.02)
    assert (rank["flagged"], rank["told"], rank["conclusive"]) == (5, 3, True)
    assert (health["flagged"], health["conclusive"], health["deadline_ms"]) == (0, False, 250.0)


def test_what_a_person_reads(table):
    result = invoke(table, "--limit", 1)
    assert (result.exit_code, result.stderr) == (0, "")
    said = " ".join(result.stdout.split())
    assert "night.csv: 630 requests on 2 routes; latencies in milliseconds from column latency_ms" in said
    assert "sketch: the route's own deadline" in said
    assert "5 of 580 requests after the warm-up were flagged. 3 would have been told: three at once" in said
    assert "402 401 1796000100.00 90.0 ms 1" in said
    assert "4 more were flagged" in said
    assert "Nothing was flagged, but that is not conclusive: a route has a deadline of its own from 200 learnt" in said
    assert "and here are 10." in said


@pytest.mark.parametrize("wide", [60, 80, 200])
def test_no_line_is_wider_than_the_terminal(table, wide):
    shown = CliRunner().invoke(build(), ["replay", str(table)], env={"COLUMNS": str(wide)})
    assert shown.exit_code == 0
    assert all(len(row.rstrip()) <= wide for row in shown.stdout.splitlines())


def test_a_column_of_numbers_needs_no_header_and_nobody_knows_what_was_told():
    text = "\n".join(map(str, [*steady(400), 70.0]))
    route = only("-", text=text)
    assert (route["requests"], route["flagged"], route["told"]) == (401, 1, None)
    assert route["spikes"][0]["line"] == 401
    assert route["spikes"][0]["told"] is None
    assert "not known: that takes a column of times" in " ".join(invoke("-", text=text).stdout.split())


def test_all_of_it_warm_up_says_nothing():
    route = only("-", text="9000\n" * 19)
    assert (route["warmup_requests"], route["deadline_ms"], route["rule"]) == (19, None, None)
    assert not route["conclusive"]
    assert route["verdict"].startswith("Nothing was flagged, and that says nothing: all 19 requests are part")


def test_a_quiet_night_is_conclusive_and_says_what_was_judged_loosely():
    route = only("-", text="\n".join(map(str, steady(1000))))
    assert route["conclusive"]
    assert route["verdict"] == (
        "Nothing was flagged: none of 980 requests after the warm-up was too long. "
        "Of the first 200 only one of ten medians and at least 250 ms would have been."
    )


def test_options_are_the_settings_of_the_service(table):
    text = "\n".join(["5"] * 30 + ["120"] * 2)
    assert only("-", text=text)["flagged"] == 0
    with_slo = only("-", "--slo-ms", 100, text=text)
    assert (with_slo["flagged"], with_slo["spikes"][0]["rule"], with_slo["conclusive"]) == (2, "slo", True)
    assert only("-", "--slo-ms", 100, "--warmup", 31, text=text)["flagged"] == 1
    chosen = document(table, "--route", "/health", "--warmup", 0)
    assert [one["route"] for one in chosen["routes"]] == ["/health"]
    assert chosen["settings"] == {"warmup_requests": 0, "slo_ms": 0.0}
    assert len(document(table, "--limit", 2)["routes"][0]["spikes"]) == 2


@pytest.mark.parametrize("slo", ["nan", "inf", "-1"])
def test_an_slo_that_is_no_duration_is_wrong_usage(slo):
    result = invoke("-", "--slo-ms", slo, text="1\n")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "--slo-ms" in result.stderr


def test_shapes_are_judged_as_shapes():
    slow = ["40,c", "40,d", "12,b", "40,e", "70,b"]
    rows = ["latency_ms,shape", *(f"{one},a" for one in steady(300)), "6,b", *slow]
    route = only("-", text="\n".join(rows))
    assert [(one["line"], one["rule"]) for one in route["spikes"]] == [(306, "new_shape"), (307, "sketch")]
    assert route["events"] == []


def test_what_became_known_of_many_is_told():
    rows = [*steady(3000), *(20 * one for one in steady(1000, seed=2))]
    text = "\n".join(["time,latency_ms", *(f"{1796000000 + number},{one}" for number, one in enumerate(rows))])
    (event,) = only("-", text=text)["events"]
    assert event["event"] == "shift"
    assert 3000 < event["request"] < 3400
    assert (event["line"], event["time"]) == (event["request"] + 1, str(1796000000 + event["request"] - 1))
    assert f"Line {event['line']:,} (request {event['request']:,}, {event['time']}): a new level" in " ".join(
        invoke("-", text=text).stdout.split()
    )


@pytest.mark.parametrize(
    ("head", "factor"),
    [
        ("latency_ms", 1),
        ("Latency (ms)", 1),
        ("duration", 1),
        ("ms", 1),
        ("elapsed", 1),
        ("seconds", 0.001),
        ("duration_s", 0.001),
        ("request_time_s", 0.001),
        ("latency_us", 1000),
        ("took_ns", 1e6),
    ],
)
def test_names_and_units(head, factor):
    route = only("-", text="\n".join([f"n,{head}", *(f"{n},{12.5 * factor:.12g}" for n in range(5))]))
    assert route["max_ms"] == pytest.approx(12.5, rel=1e-6)


PAGE = (Path(__file__).parents[2] / "docs" / "detection.md").read_text()


def test_every_name_of_a_column_is_documented():
    named = (*columns._LATENCIES, *columns._ENDS, *columns._STARTS, *columns._ROUTES, *columns._SHAPES)
    assert [name for name in named if f"`{name}`" not in PAGE] == []
    assert all(columns.columns_of([f"{name}_ms"]) for name in columns._LATENCIES)
    found = columns.columns_of(["started", "shape", "ms", "path", "ended"])
    assert (found.latency.at, found.moment.at, found.started, found.route.at, found.shape.at) == (2, 4, None, 3, 1)


def test_every_key_of_the_document_is_documented(table):
    found = document(table)
    route = found["routes"][0]
    keys = [*found, *(f".{key}" for key in route), *(f"..{key}" for key in route["spikes"][0]), "..event"]
    assert [key for key in (*keys, *found["columns"], *found["settings"]) if f"`{key}`" not in PAGE] == []


def test_the_rules_on_the_page_are_those_that_are_told():
    assert [rule for rule in RULES if f"| `{rule}` |" not in PAGE] == []


HEADER, BODY = "time,route,latency_ms", ["1,/a,5.5", "2,/b,7.25", "3,/a,9"]


@pytest.mark.parametrize(
    "data",
    [
        "\n".join([HEADER, *BODY]).encode(),
        "\n".join([HEADER, *BODY, ""]).encode("utf-8-sig"),
        "\r\n".join([HEADER, *BODY, ""]).encode(),
        "\r".join([HEADER, *BODY]).encode(),
        "\n\n".join(["", HEADER, *BODY, ",,", " "]).encode(),
        "\n".join([HEADER, *BODY]).replace(",", ";").replace(".", ",").encode(),
        "\n".join([HEADER, *BODY]).replace(",", "\t").encode(),
        "\n".join(["time, route, latency_ms", '"1", "/a", "5.5"', *BODY[1:]]).encode(),
        gzip.compress("\n".join([HEADER, *BODY]).encode()),
    ],
    ids=["plain", "bom", "crlf", "cr", "empty lines", "semicolons", "tabs", "quotes", "gzip"],
)
def test_the_same_table_however_it_is_written(tmp_path, data):
    (tmp_path / "table").write_bytes(data)
    found = document(tmp_path / "table")
    assert [(one["route"], one["requests"], one["max_ms"]) for one in found["routes"]] == [
        ("/a", 2, 9.0),
        ("/b", 1, 7.25),
    ]
    assert document("-", text=data)["requests"] == 3


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "standard input holds no latencies; give a CSV with a row for each request"),
        ("latency_ms\n\n", "standard input holds no latencies; give a CSV with a row for each request"),
        ("a,b\n1,2\n", "standard input, line 1: no column here is named as a latency; name the columns"),
        ("1,2\n3,4\n", "standard input, line 1: no column here is named as a latency; name the columns"),
        ("hello\n1\n", "standard input, line 1: no column here is named as a latency; name the columns"),
        ("5\n\nfast\n", "standard input, line 3: the latency 'fast' is no number; correct or remove the row"),
        ("ms\n5\nnan\n", "standard input, line 3: the latency nan cannot be true; correct or remove the row"),
        ("ms\n-0.5\n", "standard input, line 2: the latency -0.5 cannot be true; correct or remove the row"),
        ("ms\ninf\n", "standard input, line 2: the latency inf cannot be true; look at the unit in its name"),
        ("s\n1e300\n", "standard input, line 2: the latency 1e300 cannot be true; look at the unit in its name"),
        ("route,ms\n/a,5\n/b\n", "standard input, line 3: the latency is missing; correct or remove the row"),
        ("route,ms\n/a,b,5\n", "standard input, line 2: 3 columns where there should be 2; put text that holds"),
        ("5\n6,7\n", "standard input, line 2: 2 columns where there should be 1; put text that holds"),
        ("ms,time\n5,noon\n", "standard input, line 2: the time 'noon' cannot be read; write all of them"),
        ("ms,time\n5,1\n5,\n", "standard input, line 3: the time is missing; write all of them as numbers or"),
        ("ms,time\n5,1\n5,2026-01-01T00:00:00Z\n", "standard input, line 3: the time '2026-01-01T00:00:00Z' cannot be"),
        ("ms,time\n5,2026-02-30 00:00\n", "standard input, line 2: the time '2026-02-30 00:00' cannot be read; write"),
        ("ms,time_s\n5,1e999999\n", "standard input, line 2: the time '1e999999' cannot be read; write all of them"),
        ('route,ms\n/a,5\n"/b,6\n/c,7\n', "standard input, line 3: this is no row of a table; look for a quotation"),
        ("5\n" + "7" * 2_000_000, "standard input, line 2: this is no row of a table; look for a quotation"),
        ("5\n".encode("utf-16"), "standard input is written in UTF-16; save it as UTF-8"),
        (gzip.compress(b"5\n" * 9000)[:-20], "after it the compressed file is damaged or cut short; copy it again"),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_one_sentence_with_line_and_remedy(text, said):
    assert said in refused(text)


def test_a_pipe_that_the_shell_gives_a_path():
    reading, writing = os.pipe()
    try:
        os.write(writing, b"5\n" * 30)
        os.close(writing)
        found = document(f"/dev/fd/{reading}")
    finally:
        os.close(reading)
    assert (found["file"], found["requests"]) == (f"/dev/fd/{reading}", 30)


def test_files_that_are_none(tmp_path):
    for path, said in ((tmp_path / "gone.csv", "there is no file"), (tmp_path, "is a folder; give a file")):
        result = invoke(path)
        assert (result.exit_code, result.stdout, result.stderr.count("\n")) == (1, "", 1)
        assert said in result.stderr


def test_a_route_that_is_not_there_names_those_that_are(table):
    result = invoke(table, "--route", "/nope")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "midwatch: night.csv has no request of the route /nope; there is /rank, /health\n"
    assert "no column of routes to choose /a from; leave out --route" in refused("ms\n5\n", "--route", "/a")


def test_routes_without_end_are_refused(monkeypatch):
    monkeypatch.setattr(replaying, "MOST_ROUTES", 3)
    said = refused("ms,path\n" + "".join(f"5,/items/{number}\n" for number in range(9)))
    assert "line 5: more than 3 routes; choose one with --route" in said


def ends(cells, head="time"):
    rows = [f"latency_ms,{head}", *(f'300,"{cell}"' for cell in cells)]
    return [one["ended_ns"] for one in only("-", "--warmup", 0, text="\n".join(rows))["spikes"]]


@pytest.mark.parametrize(
    ("cell", "head", "ended_ns"),
    [
        ("1796000000.123456789", "time", 1_796_000_000_123_456_789),
        ("1796000000123", "timeStamp", 1_796_000_000_123_000_000),
        ("1796000000123456", "ts", 1_796_000_000_123_456_000),
        ("1796000000123456789", "ended_at", 1_796_000_000_123_456_789),
        ("7.5", "time", 7_500_000_000),
        ("7.5", "time_ms", 7_500_000),
        ("7.5", "start_time_s", 7_800_000_000),
        ("1970-01-01T00:00:07.5Z", "time", 7_500_000_000),
        ("1970-01-01 02:00:07,500+02:00", "date", 7_500_000_000),
        ("1969-12-31 19:30:00 -0430", "started", 300_000_000),
        ("1970-01-01 00:00", "time", 0),
    ],
)
def test_times(cell, head, ended_ns):
    assert ends([cell], head) == [ended_ns]


def test_rows_out_of_order_are_counted_and_said():
    text = "ms,time\n" + "".join(f"5,{moment}\n" for moment in (1, 3, 2, 2.5, 4))
    assert document("-", text=text)["out_of_order"] == 2
    assert "2 rows tell an earlier end than one above" in " ".join(invoke("-", text=text).stdout.split())


def test_names_from_the_table_cannot_steer_the_terminal():
    shown = invoke("-", text="ms,route\n5,\x1b[2J[red]x[/]\n").stdout
    assert "\x1b" not in shown
    assert "\\x1b[2J[red]x[/]" in shown


def test_progress_only_on_a_terminal(monkeypatch, tmp_path):
    (tmp_path / "x.csv").write_text("5\n" * 200)
    monkeypatch.setattr(latencies, "TOLD_EVERY", 100)
    said = []
    monkeypatch.setattr(Status, "update", lambda self, text: said.append(text.plain))
    from midwatch_client.commands.replay import judged

    chosen = {"slo_ms": 0.0, "warmup": 20, "route": None, "limit": 1}
    judged(str(tmp_path / "x.csv"), **chosen)
    assert said == []
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    judged(str(tmp_path / "x.csv"), **chosen)
    assert said == ["judging x.csv: 100 rows, 100 %", "judging x.csv: 200 rows, 100 %"]


COMMAND = [sys.executable, "-m", "midwatch_client", "replay", "-"]


@pytest.mark.process
def test_a_stream_is_read_in_bounded_memory():
    script = (
        "import itertools, resource, sys\n"
        "from midwatch_client.commands.replay import judged\n"
        "judged('-', slo_ms=0.0, warmup=20, route=None, limit=5)\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)\n"
    )

    def peak_kb(rows):
        text = "latency_ms,route\n" + "4.5,/a\n900,/a\n5.5,/b\n" * (rows // 3)
        run = subprocess.run([sys.executable, "-c", script], input=text, capture_output=True, text=True, check=True)
        return int(run.stdout)

    assert peak_kb(90_000) < peak_kb(3_000) + 4_000


@pytest.mark.process
def test_ctrl_c_while_it_waits_for_more_prints_nothing():
    with subprocess.Popen(
        COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as run:
        run.stdin.write("latency_ms\n" + "5\n" * 200_000)  # more than a pipe holds: once it is through, it is read
        run.stdin.flush()
        run.send_signal(signal.SIGINT)
        run.wait(timeout=20)
        assert (run.returncode, run.stdout.read(), run.stderr.read()) == (130, "", "")


@pytest.mark.process
def test_a_reader_that_leaves_early_is_no_error(table, left_early):
    done = left_early(f"cat {table} | {' '.join(COMMAND)} --json")
    assert (done.returncode, done.stderr) == (0, "")
