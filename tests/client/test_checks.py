"""The checks of `midwatch doctor`, each where something is off."""

import sys
from pathlib import Path

import pytest
from midwatch.config import Settings
from midwatch.model.status import AgentStatus, Part
from midwatch_client import checks
from midwatch_client.commands.agents import complaints


def only(check: checks.Check, settings: Settings | None = None) -> Part:
    (part,) = check(settings or Settings(), "127.0.0.1:1")
    return part


def test_torch_is_not_imported_where_there_is_none(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(checks, "find_spec", lambda name: None)
    part = only(checks._torch)
    assert part.state == "unavailable"
    assert "the service's" in part.detail


def test_an_unreachable_collector_is_a_line_and_no_error():
    part = only(checks._collector)
    assert part.state == "unavailable"
    assert "start one" in part.detail


def test_without_grpc_the_collector_is_not_asked(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "grpc", None)
    assert only(checks._collector).detail == "cannot be asked without grpcio"
    monkeypatch.setattr(checks, "find_spec", lambda name: None)
    assert "pip install" in only(checks._nvml).detail


def test_a_python_that_was_not_tried(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys, "version_info", (3, 9, 1))
    assert only(checks._python).state == "unavailable"


def test_folders_that_cannot_be_used_name_the_setting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    settings = Settings(state_dir=str(tmp_path / "state"), trace_dir=str(tmp_path / "none"))
    assert only(checks._state, settings).state == "on"
    trace = only(checks._traces, settings)
    assert (trace.state, "MIDWATCH_TRACE_DIR" in trace.detail) == ("failed", True)
    for folder in (Path(__file__), Path("/proc/midwatch")):
        part = only(checks._state, Settings(state_dir=str(folder)))
        assert part.state == "failed"
        assert "MIDWATCH_STATE_DIR" in part.detail


def test_settings_that_were_ignored_come_first(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MIDWATCH_GPU_HZ", "fast")
    first = checks.examine("127.0.0.1:1")[0]
    assert (first.name, first.state) == ("settings", "failed")
    assert "MIDWATCH_GPU_HZ" in first.detail


def test_a_check_that_breaks_is_a_failed_part():
    def _broken(settings: Settings, collector: str) -> list[Part]:
        raise RuntimeError("boom")

    assert checks._guarded(_broken, Settings(), "") == [Part("broken", "failed", "RuntimeError: boom")]


def test_a_part_is_dropped_only_where_its_own_words_were_said_before():
    parts = (Part("sampler", "failed"), Part("gpu", "unavailable"), Part("engine", "failed", "no CUPTI"))
    status = AgentStatus(0, detail="engine failed: no CUPTI; nvml unavailable", parts=parts)
    assert complaints(status) == [status.detail, "sampler: failed", "gpu: unavailable"]


def test_what_was_named_must_be_there_and_what_is_only_looked_for_need_not():
    for named, state in ((True, "failed"), (False, "unavailable")):
        parts = {part.name: part for part in checks.examine("127.0.0.1:1", named=named)}
        assert parts["collector"].state == state


def test_a_package_that_is_needed_and_missing_has_failed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(checks, "distributions", lambda name: iter(()))
    states = {part.name: part.state for part in checks._packages(Settings(), "")}
    assert states.pop("isal") == "unavailable"
    assert set(states.values()) == {"failed"}


def test_a_package_that_is_there_and_cannot_be_imported_has_failed(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "grpc", None)
    parts = {part.name: part for part in checks._packages(Settings(), "")}
    assert parts["grpcio"].state == "failed"
    assert "does not import (import of grpc halted" in parts["grpcio"].detail
    assert parts["grpcio"].detail.endswith("the companion cannot send; pip install --force-reinstall grpcio")
    assert parts["numpy"].state == "on"


def test_why_the_collector_refuses_is_said_beside_how_often():
    why = "the collector refused records, the last because of this: a host sample has an impossible interval_ns, -1"
    parts = (Part("spool", "on"), Part("upload", "on", why))
    said = complaints(AgentStatus(0, parts=parts, drops=(("rejected", 2),)))
    assert said == [f"upload: {why}", "2 records refused by the collector, which has the reason in its log"]
