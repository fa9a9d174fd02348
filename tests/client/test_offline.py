"""`midwatch analyze` on several files, on folders, and on the ranks of a job."""

import io
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from midwatch_client import offline
from midwatch_client.cli import build
from rich.status import Status
from typer.testing import CliRunner

DATA = Path(__file__).parents[1] / "data"
FP32, GC = DATA / "h200" / "fp32_gemm.json.gz", DATA / "h200" / "gc_pause.json.gz"
RANKS = DATA / "ranks"


def analyze(*arguments):
    return CliRunner().invoke(build(), ["analyze", *map(str, arguments)])


@pytest.fixture
def folder(tmp_path):
    """Two traces, and things that are none."""
    shutil.copy(FP32, tmp_path / "b.json.gz")
    shutil.copy(GC, tmp_path / "a.json.gz")
    (tmp_path / "settings.json").write_text("{}")
    (tmp_path / "notes.txt").write_text("no trace")
    (tmp_path / "deeper").mkdir()
    return tmp_path


def test_a_folder_is_the_traces_in_it(folder):
    result = analyze(folder, "--json")
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert document["schema"] == "midwatch.report.v1"
    assert [Path(report["file"]).name for report in document["reports"]] == ["a.json.gz", "b.json.gz"]
    assert document["ranks"] is None
    assert [Path(one["file"]).name for one in document["unread"]] == ["settings.json"]
    assert result.stderr.startswith("midwatch: left out settings.json: ")
    assert result.stderr.count("\n") == 1


def test_a_folder_with_one_trace_still_gives_a_list(folder):
    (folder / "a.json.gz").unlink()
    document = json.loads(analyze(folder, "--json").stdout)
    assert len(document["reports"]) == 1


def test_one_file_that_cannot_be_read_does_not_keep_the_others_from_it(tmp_path):
    result = analyze(FP32, tmp_path / "gone.json", tmp_path / "gone too.json", "--json")
    assert result.exit_code == 1
    document = json.loads(result.stdout)
    assert [report["file"] for report in document["reports"]] == [str(FP32)]
    assert len(document["unread"]) == 2
    assert [line.split(";")[0] for line in result.stderr.splitlines()] == [
        f"midwatch: there is no file {tmp_path / 'gone.json'}",
        f"midwatch: there is no file {tmp_path / 'gone too.json'}",
    ]


def test_none_that_can_be_read_is_one_sentence(tmp_path):
    (tmp_path / "x.json").write_text("{}")
    result = analyze(tmp_path)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.startswith("midwatch: none of the 1 files could be read; the first: ")
    assert result.stderr.count("\n") == 1


def test_ranks_are_set_beside_each_other():
    result = analyze(RANKS)
    assert result.exit_code == 0
    first, second = result.stdout.splitlines()[:2]
    assert first.startswith(
        "Rank 1 arrives last in 5 of 5 collectives in which somebody waited: the others wait 17.4 ms"
    )
    assert second.startswith("3 of 3 ranks over gloo, 5 steps from 1 on, 5 collectives matched one by one")
    rows = [line.split() for line in result.stdout.splitlines()]
    assert ["1", "20.5", "ms", "-", "1.1", "ms", "0", "ms", "5", "17.4", "ms"] in [row[:11] for row in rows]
    assert f"{RANKS / 'rank1.json.gz'}" in result.stdout
    assert f"{RANKS / 'rank0.json.gz'}" not in result.stdout


def test_ranks_in_json_and_markdown():
    files = sorted(RANKS.glob("*.json.gz"), reverse=True)
    document = json.loads(analyze(*files, "--json").stdout)
    assert len(document["reports"]) == 3
    assert document["ranks"]["straggler"]["rank"] == 1
    assert [row["rank"] for row in document["ranks"]["rows"]] == [0, 1, 2]
    text = analyze(RANKS, "--md").stdout
    assert text.startswith("**Rank 1 arrives last")
    assert "| 1 | 20.5 ms | - | 1.1 ms | 0 ms | 5 | 17.4 ms |" in text


def test_a_page_is_written_whole(tmp_path):
    page = tmp_path / "report.html"
    result = analyze(RANKS, "--html", page)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr.startswith(f"wrote {page} (")
    text = page.read_text()
    assert text.startswith("<!DOCTYPE html>\n<html")
    assert text.count("<article") == 3
    assert "Rank 1 arrives last" in text
    assert [one.name for one in tmp_path.iterdir()] == ["report.html"]


def test_a_page_and_a_document_at_once(tmp_path):
    result = analyze(FP32, "--html", tmp_path / "r.html", "--json")
    assert json.loads(result.stdout)["file"] == str(FP32)
    assert (tmp_path / "r.html").exists()


def test_a_page_that_cannot_be_written_is_one_sentence(tmp_path):
    result = analyze(FP32, "--html", tmp_path / "no" / "r.html")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.endswith("name another file with --html\n")
    assert result.stderr.count("\n") == 1


class Terminal(io.StringIO):
    """A terminal to write on."""

    def isatty(self):
        return True


def test_progress_only_on_a_terminal(monkeypatch):
    monkeypatch.setattr(offline, "LARGE_BYTES", 0)
    with offline.reading(FP32) as tell:
        assert tell is None
    said = []
    monkeypatch.setattr(Status, "update", lambda self, text: said.append(text.plain))
    monkeypatch.setattr(sys, "stderr", Terminal())
    with offline.reading(FP32, "2 of 8: ") as tell:
        tell(5, 10)
        tell(10, 10)
    assert said == [
        "reading 2 of 8: fp32_gemm.json.gz: 50 % of 10 B",
        "summing up 2 of 8: fp32_gemm.json.gz",
    ]


def test_small_files_need_no_progress(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    with offline.reading(FP32) as tell:
        assert tell is None


@pytest.mark.process
def test_ctrl_c_ends_it_without_a_trace(tmp_path):
    pipe = tmp_path / "slow.json"
    pipe.write_text('{"traceEvents": [')
    page = tmp_path / "page.html"
    code = (
        "import sys, time, midwatch.trace.ranks as ranks\n"
        "def slow(*_, **__):\n    print('reading', file=sys.stderr, flush=True)\n    time.sleep(60)\n"
        "ranks.summarise_rank = slow\n"
        "from midwatch_client.cli import main\n"
        f"sys.argv = ['midwatch', 'analyze', {str(pipe)!r}, '--html', {str(page)!r}]\n"
        "main()\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as run:
        assert run.stderr.readline() == "reading\n"
        run.send_signal(signal.SIGINT)
        out, err = run.communicate(timeout=30)
    assert (run.returncode, out, err) == (130, "", "")
    assert not page.exists()


@pytest.mark.process
def test_numpy_starts_no_threads_and_the_environment_stays_as_it_was():
    code = (
        "import os, pathlib, sys\n"
        "from midwatch_client.offline import analyse\n"
        "analyse(pathlib.Path(sys.argv[1]))\n"
        "print(len(os.listdir('/proc/self/task')), os.environ.get('OPENBLAS_NUM_THREADS'))\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "OPENBLAS_NUM_THREADS"}
    command = [sys.executable, "-c", code, FP32]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert run.stdout == "1 None\n"
