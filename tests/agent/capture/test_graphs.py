"""The watch over CUDA graph captures, on a class with the two methods of `torch.cuda.CUDAGraph`."""

from __future__ import annotations

import threading

import pytest
from midwatch.capture import graphs as module
from midwatch.capture.graphs import GraphWatch


@pytest.fixture
def watch(monkeypatch):
    made = GraphWatch()
    monkeypatch.setattr(module, "graphs", made)
    monkeypatch.setattr(module, "_installed", [])
    return made


@pytest.fixture
def graph_class(watch):
    class Graph:
        fails = False

        def capture_begin(self, pool=None, *, capture_error_mode="global"):
            if self.fails:
                raise RuntimeError("already capturing")
            return (pool, capture_error_mode)

        def capture_end(self):
            return "ended"

    assert module.install(Graph)
    yield Graph
    module.uninstall()
    assert not hasattr(Graph.capture_begin, "__wrapped__")


def test_captures_are_counted_and_arguments_pass_through(watch, graph_class):
    graph = graph_class()
    assert not watch.capturing
    assert graph.capture_begin("pool", capture_error_mode="relaxed") == ("pool", "relaxed")
    assert watch.capturing
    assert graph.capture_end() == "ended"
    assert not watch.capturing


def test_a_capture_that_could_not_begin_is_not_counted(watch, graph_class):
    graph = graph_class()
    graph.fails = True
    with pytest.raises(RuntimeError, match="already capturing"):
        graph.capture_begin()
    assert not watch.capturing


def test_installing_twice_wraps_once(graph_class):
    wrapped = graph_class.capture_begin
    assert module.install(graph_class)
    assert graph_class.capture_begin is wrapped


def test_a_capture_waits_while_a_window_closes(watch):
    began = threading.Event()

    def capture():
        watch.begins()
        began.set()

    with watch.quiet(1.0) as calm:
        assert calm
        thread = threading.Thread(target=capture)
        thread.start()
        assert not began.wait(0.05)
    assert began.wait(10)
    thread.join()


def test_a_window_waits_for_a_capture_but_not_for_good(watch):
    watch.begins()
    with watch.quiet(0.01) as calm:
        assert not calm
    watch.ends()
    with watch.quiet(0.01) as calm:
        assert calm


def test_the_real_class_can_be_wrapped(watch):
    import torch

    assert module.install()
    assert hasattr(torch.cuda.CUDAGraph.capture_begin, "__wrapped__")
    module.uninstall()
    assert not hasattr(torch.cuda.CUDAGraph.capture_begin, "__wrapped__")
