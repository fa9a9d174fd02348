"""Right answers on traces of planted faults, recorded on an H200: kind, function, and what is not said."""

import json
from pathlib import Path

import pytest
from midwatch.model.finding import Kind, Verdict
from midwatch.trace import summarise
from midwatch_server.diagnosis import Evidence, diagnose

FOLDER = Path(__file__).parents[2] / "data" / "h200"
METAS = [json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.meta.json"))]


def judge(name):
    return diagnose(Evidence(summary=summarise(FOLDER / f"{name}.json.gz")))


@pytest.mark.parametrize("meta", [meta for meta in METAS if meta["kind"] != "clean"], ids=lambda meta: meta["name"])
def test_the_planted_fault_is_among_the_first_two_at_the_function_that_holds_it(meta):
    functions = meta["fault_function"]
    functions = [functions] if isinstance(functions, str) else functions
    first_two = [(finding.kind.value, finding.site) for finding in judge(meta["name"]).findings[:2]]
    assert [
        site.function for kind, site in first_two if kind == meta["kind"] and site and site.function in functions
    ], first_two


@pytest.mark.parametrize("name", ["item_metric", "device_sync"])
def test_a_sync_that_costs_is_the_first_cause(name):
    assert judge(name).findings[0].kind is Kind.HOT_SYNC


def test_a_sync_that_gains_nothing_is_not_called_the_cause():
    diagnosis = judge("item_free")
    assert diagnosis.findings[0].kind is Kind.LAUNCH_BOUND
    syncs = [f for f in (*diagnosis.findings, *diagnosis.notes) if f.kind is Kind.HOT_SYNC]
    assert all(sync.share_of_request < 0.05 for sync in syncs)
    assert all(sync.recoverable_ms < 0.05 * sync.per_request_ms / sync.share_of_request for sync in syncs)
    assert not any(finding.kind is Kind.HOT_SYNC for finding in diagnosis.findings)


def test_device_bound_work_on_tensor_cores_is_clean():
    diagnosis = judge("clean_bf16")
    assert diagnosis.verdict is Verdict.CLEAN
    assert diagnosis.findings == diagnosis.notes == ()
    assert "hand-over" in diagnosis.reason


def test_a_rare_collection_is_measured_against_the_request_that_it_held():
    finding = judge("gc_pause").findings[0]
    assert finding.requests_affected == 1
    assert finding.share_of_request > 0.95
    assert finding.site is not None
