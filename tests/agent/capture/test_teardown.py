"""The call that finishes a tear-down; whether it does is shown on a device, by the part `exit` of the soak."""

from types import SimpleNamespace

import pytest
from midwatch.capture import teardown
from midwatch.capture.session import ProfilerSession


class Cuda:
    """A torch on CUDA 13 and the runtime that it has loaded."""

    def __init__(self, monkeypatch, *, initialized=True, tears_down=True):
        self.calls, self.loaded = [], []
        torch = SimpleNamespace(
            __version__="2.11.0+cu130",
            version=SimpleNamespace(cuda="13.0", hip=None),
            cuda=SimpleNamespace(is_initialized=lambda: initialized),
            _C=SimpleNamespace(_cuda_getDevice=lambda: self.calls.append("torch")),
        )
        monkeypatch.setattr(teardown, "loaded_torch", lambda: torch)
        monkeypatch.setattr(teardown, "tears_down", lambda: tears_down)
        monkeypatch.setattr(teardown.time, "sleep", lambda _seconds: None)
        monkeypatch.setattr(teardown, "opened", self.load)

    def load(self, name):
        self.loaded.append(name)
        return SimpleNamespace(cudaDriverGetVersion=lambda _version: self.calls.append("runtime"))


def test_the_runtime_that_torch_has_loaded_is_asked_for_the_drivers_version(monkeypatch):
    cuda = Cuda(monkeypatch)
    teardown.settle()
    assert cuda.loaded == ["libcudart.so.13"] * 4
    assert cuda.calls == ["runtime"] * 4


def test_a_torch_that_carries_the_runtime_inside_itself_is_asked_instead(monkeypatch):
    cuda = Cuda(monkeypatch)
    monkeypatch.setattr(teardown, "opened", lambda name: (_ for _ in ()).throw(OSError(name)))
    teardown.settle()
    assert cuda.calls == ["torch"] * 4


@pytest.mark.parametrize(("initialized", "tears_down", "calls"), [(True, True, 4), (False, True, 0), (True, False, 0)])
def test_at_exit_only_what_can_be_pending_is_finished(monkeypatch, initialized, tears_down, calls):
    cuda = Cuda(monkeypatch, initialized=initialized, tears_down=tears_down)
    teardown.settle_at_exit()
    assert len(cuda.calls) == calls


def test_the_exit_finishes_after_a_session_of_the_users_and_not_without_one(monkeypatch):
    cuda = Cuda(monkeypatch)
    session = ProfilerSession()
    session.exit()
    assert cuda.calls == []
    session = ProfilerSession()
    session.user_begins(1)
    session.user_ends(1)
    session.exit()
    assert len(cuda.calls) == 4
