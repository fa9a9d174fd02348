"""`midwatch analyze`: what it prints, and how it fails."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from midwatch_client.cli import build
from typer.testing import CliRunner

DATA = Path(__file__).parents[2] / "data" / "h200"
FP32, GC = DATA / "fp32_gemm.json.gz", DATA / "gc_pause.json.gz"


def analyze(*arguments):
    return CliRunner().invoke(build(), ["analyze", *map(str, arguments)])


def test_text_names_what_where_how_much_and_what_to_try():
    result = analyze(FP32)
    assert result.exit_code == 0, result.output
    assert "1. kernel_bound: Matrix products in fp32 without tensor cores take" in result.stdout
    assert "where     request in" in result.stdout
    assert "torch.set_float32_matmul_precision('high')" in result.stdout
    assert result.stderr == ""


def test_json_is_one_document_with_the_contract_s_keys():
    document = json.loads(analyze(FP32, "--json").stdout)
    assert document["schema"] == "midwatch.report.v1"
    assert document["file"] == str(FP32)
    assert document["findings"][0]["kind"] == "kernel_bound"
    assert document["device"]["kernels"] == 36
    assert document["window"]["requests"] >= 5


def test_a_known_latency_without_the_profiler_corrects_the_figures():
    traced = json.loads(analyze(DATA / "tiny_kernels.json.gz", "--json").stdout)
    corrected = json.loads(analyze(DATA / "tiny_kernels.json.gz", "--json", "--untraced-p50", "5.68").stdout)
    assert corrected["window"]["untraced_factor"] == pytest.approx(
        5.68 / corrected["window"]["request_p50_ms"], rel=0.01
    )
    assert corrected["findings"][0]["recoverable_ms"] != traced["findings"][0]["recoverable_ms"]


def test_several_files_give_several_reports():
    document = json.loads(analyze(FP32, GC, "--json").stdout)
    assert [report["file"] for report in document["reports"]] == [str(FP32), str(GC)]
    text = analyze(FP32, GC).stdout
    assert text.index("kernel_bound") < text.index("gc_pause")


def test_markdown():
    assert analyze(GC, "--md").stdout.startswith(f"## {GC}\n\n- window: ")


def test_a_file_that_is_not_there_is_one_sentence(tmp_path):
    result = analyze(tmp_path / "no.json")
    assert result.exit_code == 1
    assert result.stdout == ""
    sentence = f"there is no file {tmp_path / 'no.json'}; give the path of a trace, .json or .json.gz"
    assert result.stderr == f"midwatch: {sentence}\n"


@pytest.mark.parametrize("text", ["", "no trace at all", '{"traceEvents": []}', '{"traceEvents": 3}'])
def test_a_file_that_is_no_trace_is_one_sentence(tmp_path, text):
    path = tmp_path / "trace.json"
    path.write_text(text)
    result = analyze(path)
    assert result.exit_code == 1, result.output
    assert result.stdout == ""
    assert result.stderr.startswith("midwatch: ")
    assert result.stderr.count("\n") == 1


def test_a_folder_is_no_trace(tmp_path):
    result = analyze(tmp_path)
    assert (result.exit_code, result.stderr.count("\n")) == (1, 1)


@pytest.mark.parametrize("arguments", [[], ["--json", "--md", str(FP32)]])
def test_wrong_usage_is_2(arguments):
    assert analyze(*arguments).exit_code == 2


@pytest.mark.process
def test_neither_torch_nor_grpc_nor_a_database_is_needed():
    code = (
        "import sys\n"
        "for name in ('torch', 'grpc', 'google.protobuf', 'sqlalchemy'): sys.modules[name] = None\n"
        "from midwatch_client.cli import main\n"
        f"sys.argv = ['midwatch', 'analyze', {str(FP32)!r}]\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert "kernel_bound" in done.stdout
