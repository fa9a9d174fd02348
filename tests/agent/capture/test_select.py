"""The choice of an engine: a table of machines and versions, and one line of reason for each."""

from __future__ import annotations

import pytest
from midwatch.capture import select
from midwatch.capture.select import Host, Target, choose_engine, why_not
from midwatch.capture.shim import ShimError
from midwatch.capture.version import TorchVersion, installed_version

TORN_DOWN = {"TEARDOWN_CUPTI": "1"}


def version(text, cuda=(13, 0), *, hip=False):
    major, minor = text.split(".")[:2]
    return TorchVersion(text, (int(major), int(minor)), cuda, hip)


def host(setting="auto", **changes):
    defaults = {"system": "linux", "machine": "x86_64", "environ": TORN_DOWN}
    return Host(setting, **{**defaults, **changes})


def reason(text, name="direct", *, on=None, device=True, deep=False, **kind):
    return why_not(on or host(), name, Target(version(text, **kind), device), deep=deep)


class TestWithCuda:
    @pytest.mark.parametrize("text", ["2.11.0", "2.12.1", "2.13.0", "2.14.1"])
    def test_direct_light_windows_where_cupti_can_be_torn_down(self, text):
        assert reason(text) == ""

    @pytest.mark.parametrize(("text", "cuda"), [("2.10.0", (12, 8)), ("2.4.1", (12, 4)), ("2.11.0", (12, 4))])
    @pytest.mark.parametrize("name", ["direct", "capped"])
    def test_a_lasting_cost_must_be_accepted(self, text, cuda, name):
        untouched = host(environ={})
        assert "engine=direct accepts the cost" in reason(text, name, on=untouched, cuda=cuda)
        assert reason(text, name, on=host(name, environ={}), cuda=cuda) == ""

    def test_a_tear_down_that_the_host_switched_off_is_named(self):
        assert "do not set TEARDOWN_CUPTI=0" in reason("2.11.0", on=host(environ={"TEARDOWN_CUPTI": "0"}))

    def test_deep_windows_must_be_allowed_before_2_14(self):
        assert "must be allowed (allow_deep)" in reason("2.13.0", deep=True)
        assert reason("2.13.0", deep=True, on=host(allow_deep=True)) == ""
        assert reason("2.14.1", deep=True) == ""

    @pytest.mark.parametrize(
        "variable", ["CUDA_INJECTION64_PATH", "NVTX_INJECTION64_PATH", "NSYS_PROFILING_SESSION_ID"]
    )
    @pytest.mark.parametrize("name", ["direct", "capped"])
    def test_another_profiler_on_cupti_switches_windows_off(self, variable, name):
        on = host(name, environ={**TORN_DOWN, variable: "x"})
        assert (
            reason("2.13.0", name, on=on) == f"{variable} is set: another profiler holds CUPTI, which has room for one"
        )
        assert reason("2.13.0", name, on=on, device=False) == ""


class TestWithoutCuda:
    @pytest.mark.parametrize("text", ["2.7.1", "2.13.0", "2.14.1"])
    @pytest.mark.parametrize("deep", [False, True])
    def test_operators_of_all_threads(self, text, deep):
        assert reason(text, device=False, deep=deep, on=host(environ={}), cuda=(0, 0)) == ""

    def test_operators_of_other_threads_need_2_7(self):
        assert "cannot record operators of other threads, 2.7 can" in reason("2.6.0", device=False)


class TestAnywhere:
    @pytest.mark.parametrize(
        ("on", "text", "expected"),
        [
            (host("off"), "2.13.0", "switched off (engine=off)"),
            (host("capped"), "2.13.0", "not chosen (engine=capped)"),
            (host("channel"), "2.13.0", "engine='channel' is not known: choose one of auto, direct, capped, off"),
            (host(system="darwin"), "2.13.0", "windows need Linux, not darwin"),
            (host(), "2.3.1", "torch 2.3.1 is older than 2.4: upgrade torch for windows"),
            (host(), "2.15.0", "torch 2.15.0 is newer than 2.14, the last one tried; engine=direct tries it"),
            (host(machine="aarch64"), "2.13.0", "not tried on aarch64; engine=direct tries it"),
        ],
    )
    def test_reasons(self, on, text, expected):
        assert reason(text, on=on) == expected

    def test_what_direct_has_not_tried_capped_does(self):
        assert reason("2.15.0", "capped") == ""
        assert reason("2.15.0", on=host("direct")) == ""
        assert reason("2.13.0", "capped", on=host(machine="aarch64")) == ""

    def test_rocm_and_another_daemon(self):
        assert "ROCm" in reason("2.13.0", hip=True)
        assert "KINETO_USE_DAEMON is set" in reason("2.13.0", on=host(environ={**TORN_DOWN, "KINETO_USE_DAEMON": "1"}))


def test_before_torch_is_imported_there_is_no_engine_yet(monkeypatch):
    monkeypatch.setattr(select, "loaded_torch", lambda: None)
    engine, parts = choose_engine()
    assert engine is None
    assert [(p.name, p.state, p.detail) for p in parts] == [
        ("engine.direct", "unavailable", "torch is not imported yet"),
        ("engine.capped", "unavailable", "torch is not imported yet"),
    ]


def test_an_engine_that_was_given_up_stays_off_and_the_next_one_takes_over(built_shim, tmp_path):
    import torch  # noqa: F401

    engine, parts = choose_engine(given_up={"direct": "3 windows in a row failed"})
    assert engine.name == "capped"
    assert (parts[0].state, parts[0].detail) == ("failed", "3 windows in a row failed")
    engine, parts = choose_engine("direct", given_up={"direct": "3 windows in a row failed"})
    assert engine is None


def test_a_state_folder_that_cannot_be_written_is_known_before_the_first_window(built_shim, tmp_path):
    import torch  # noqa: F401

    (tmp_path / "file").touch()
    engine, _ = choose_engine(service="shop", state_dir=str(tmp_path / "file" / "state"))
    assert engine.unavailable() == ""
    assert "the crash latch is off" in engine.warning()


def test_a_shim_that_once_could_not_be_loaded_is_tried_again(built_shim, monkeypatch):
    import torch  # noqa: F401

    monkeypatch.setattr(select, "_shim_works", set())
    with monkeypatch.context() as broken:
        broken.setattr(select, "Shim", _unloadable)
        assert choose_engine()[0].name == "capped"
    assert choose_engine()[0].name == "direct"


def _unloadable():
    raise ShimError("the C++ shim does not load here (Too many open files)")


def test_off_is_off_not_unavailable(monkeypatch):
    monkeypatch.setattr(select, "loaded_torch", lambda: None)
    _, parts = choose_engine("off")
    assert {p.state for p in parts} == {"off"}


def test_the_installed_version_is_read_without_importing_torch():
    found = installed_version()
    assert found is not None
    assert found.number >= (2, 4)
    assert found.text.startswith(f"{found.number[0]}.{found.number[1]}.")
