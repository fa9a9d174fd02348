"""Real modules of a real torch."""

import copy
import importlib
import io
import pickle
import sys
import threading
import warnings
import weakref

import pytest
import torch
from midwatch.requests.ledger import Ledger
from midwatch.requests.roots import Roots
from midwatch.requests.units import Units, worked_for
from midwatch.testing import FakeClock


class Inner(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)

    def forward(self, x):
        return torch.relu(self.linear(x))


class Ranker(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = Inner(), Inner()

    def forward(self, x, *, scale=None):
        if x.shape[0] == 13:
            raise ValueError("unlucky")
        y = self.second(self.first(x))
        return y if scale is None else y * scale


@pytest.fixture
def units(clock, tracker):
    return Units(clock, tracker)


@pytest.fixture
def roots(clock, units):
    roots = Roots(clock, units)
    roots.start()
    yield roots
    roots.stop()


@pytest.fixture
def no_dynamo(monkeypatch):
    """As in a service that has not imported Dynamo; another test may have."""
    monkeypatch.delitem(sys.modules, "torch._dynamo", raising=False)


def names(units):
    return [unit.name for unit in units.drain()]


@pytest.mark.usefixtures("no_dynamo")
class TestFinding:
    def test_the_outermost_module_is_the_root_from_its_first_call_on(self, units, roots):
        model = Ranker()
        for _ in range(3):
            model(torch.zeros(2, 4))
        assert names(units) == ["Ranker"] * 3
        assert "root modules: Ranker" in roots.status().detail

    def test_a_search_that_begins_in_the_middle_of_a_call_finds_the_root_all_the_same(self, clock, units):
        roots = Roots(clock, units)

        class Late(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = Inner()

            def forward(self, x):
                roots.start()
                return self.inner(x)

        model = Late()
        model(torch.zeros(1, 4))
        roots._disarm()
        model.forward = model.inner
        model(torch.zeros(1, 4))
        assert names(units) == ["Late"]
        roots.stop()

    def test_several_roots_on_several_threads(self, units, roots):
        models = [Ranker(), Inner(), Ranker()]
        threads = [threading.Thread(target=model, args=(torch.zeros(1, 4),)) for model in models]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(names(units)) == ["Inner", "Ranker", "Ranker"]

    def test_the_global_hook_is_taken_away_when_nothing_new_is_seen(self, units, roots):
        module = sys.modules["torch.nn.modules.module"]
        model = Ranker()
        for _ in range(202):
            model(torch.zeros(1, 4))
        assert not module._global_forward_pre_hooks
        assert len(names(units)) == 202

    def test_it_is_taken_away_after_half_a_minute_and_comes_again_after_five_minutes(self, clock, units, roots):
        module = sys.modules["torch.nn.modules.module"]
        Ranker()(torch.zeros(1, 4))
        clock.advance(31)
        roots.tick(clock.perf_ns())
        assert not module._global_forward_pre_hooks
        clock.advance(300)
        roots.tick(clock.perf_ns())
        Inner()(torch.zeros(1, 4))
        assert names(units) == ["Ranker", "Inner"]

    def test_a_service_of_many_small_modules_has_no_root(self, units, roots):
        x = torch.zeros(1, 4)
        layers = [torch.nn.Linear(4, 4) for _ in range(40)]
        for layer in layers:
            layer(x)
        assert roots.status().state == "unavailable"
        units.drain()
        layers[0](x)
        assert names(units) == []
        assert not layers[0]._forward_pre_hooks

    def test_stopping_takes_every_hook_away(self, units, roots):
        model = Ranker()
        model(torch.zeros(1, 4))
        assert model._forward_pre_hooks
        roots.stop()
        assert not model._forward_pre_hooks
        assert not model._forward_hooks
        assert not sys.modules["torch.nn.modules.module"]._global_forward_pre_hooks


@pytest.mark.usefixtures("no_dynamo")
class TestUnits:
    def test_the_workload_is_shapes_dtypes_and_devices(self, units, roots):
        model = Ranker()
        model(torch.zeros(8, 4), scale=torch.ones((), dtype=torch.float64))
        model(torch.zeros(8, 4), scale=torch.ones((), dtype=torch.float64))
        assert units.drain()[-1].workload.inputs == ("float32[8,4]@cpu", "float64[]@cpu")

    def test_a_forward_that_raises_ends_its_unit(self, clock, units, roots):
        model = Ranker()
        model(torch.zeros(1, 4))
        with pytest.raises(ValueError, match="unlucky"):
            model(torch.zeros(13, 4))
        assert not units.inside()
        assert len(names(units)) == 2

    def test_a_unit_left_by_an_exit_is_forgotten_when_the_module_is_called_again(self, units, roots):
        class Interrupted(Ranker):
            def forward(self, x, *, scale=None):
                if x.shape[0] == 2:
                    raise KeyboardInterrupt
                return super().forward(x)

        model = Interrupted()
        model(torch.zeros(1, 4))
        with pytest.raises(KeyboardInterrupt):
            model(torch.zeros(2, 4))
        model(torch.zeros(1, 4))
        assert not units.inside()
        assert len(names(units)) == 2

    def test_a_request_owns_the_units_of_its_context(self, tracker, units, roots):
        model = Ranker()
        mark = tracker.begin("rank")
        model(torch.zeros(3, 4))
        tracker.end(mark)
        (unit,) = units.drain()
        assert unit.owner_id == mark.request_id
        assert mark.workload.batch == 3
        assert unit.requests == 1

    def test_a_batchers_unit_counts_the_requests_in_flight_and_explains_them(self, clock, tracker, units, roots):
        model = Ranker()
        marks = [tracker.begin("rank", bind=False) for _ in range(3)]
        thread = threading.Thread(target=model, args=(torch.zeros(3, 4),))
        thread.start()
        thread.join()
        for mark in marks:
            tracker.end(mark)
        ledger = Ledger()
        (unit,) = units.drain()
        ledger.units.add(unit)
        assert (unit.owner_id, unit.requests) == (0, 3)
        assert tracker.unit_threads() == {unit.thread[0]}
        units.explain(marks[0], ledger.units)
        assert marks[0].workload.inputs == ("float32[3,4]@cpu",)

    def test_a_slow_request_of_a_route_that_waits_for_no_unit_is_given_no_stranger_s(
        self, clock, tracker, units, roots
    ):
        model, ledger = Ranker(), Ledger()
        for _ in range(3):
            brief = tracker.begin("views")
            tracker.end(brief)
            units.explain(brief, ledger.units)
        slow, ranked = tracker.begin("views", bind=False), tracker.begin("rank", bind=False)
        thread = threading.Thread(target=model, args=(torch.zeros(3, 4),))
        thread.start()
        thread.join()
        tracker.end(slow)
        tracker.end(ranked)
        ledger.units.add(*units.drain())
        units.explain(slow, ledger.units)
        units.explain(ranked, ledger.units)
        seen = ledger.units.overlapping(slow.start_ns, slow.end_ns)
        assert (slow.workload, worked_for(slow, seen)) == (None, [])
        assert (ranked.workload.batch, worked_for(ranked, seen)) == (3, seen)

    def test_a_unit_of_another_request_s_own_explains_nothing(self, tracker, units, roots):
        model, ledger = Ranker(), Ledger()
        beside = tracker.begin("rank", bind=False)
        owner = tracker.begin("rank")
        model(torch.zeros(3, 4))
        tracker.end(owner)
        tracker.end(beside)
        ledger.units.add(*units.drain())
        units.explain(beside, ledger.units)
        seen = ledger.units.overlapping(beside.start_ns, beside.end_ns)
        assert (beside.workload, worked_for(beside, seen)) == (None, [])
        assert worked_for(owner, seen) == seen

    def test_units_become_requests_where_nothing_marks_any(self, clock, tracker, units, roots):
        model = Ranker()
        for _ in range(40):
            model(torch.zeros(1, 4))
            clock.advance(0.2)
        marks = tracker.drain()
        assert {mark.route.name for mark in marks} == {"Ranker"}
        assert len(marks) == 40 - 25
        assert "taken as a request" in roots.status().detail
        tracker.end(tracker.begin("rank"))
        tracker.drain()
        model(torch.zeros(1, 4))
        assert tracker.drain() == []
        assert "taken as a request" not in roots.status().detail


@pytest.mark.usefixtures("no_dynamo")
class TestWhatPeopleDoToModules:
    @pytest.fixture
    def model(self, roots):
        model = Ranker()
        model(torch.zeros(1, 4))
        return model

    def test_copy(self, model, units):
        units.drain()
        twin = copy.deepcopy(model)
        assert torch.equal(twin(torch.ones(1, 4)), model(torch.ones(1, 4)))
        assert names(units) == ["Ranker", "Ranker"]

    def test_save_and_load(self, model):
        file = io.BytesIO()
        torch.save(model, file)
        assert b"midwatch" not in file.getvalue()
        file.seek(0)
        loaded = torch.load(file, weights_only=False)
        assert torch.equal(loaded(torch.ones(1, 4)), model(torch.ones(1, 4)))

    def test_pickle(self, model):
        loaded = pickle.loads(pickle.dumps(model))
        assert torch.equal(loaded(torch.ones(1, 4)), model(torch.ones(1, 4)))

    def test_trace(self, model, units):
        units.drain()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            traced = torch.jit.trace(model, torch.ones(2, 4), check_trace=False)
        assert "size" not in str(traced.graph)
        assert names(units) == []

    @pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
    def test_script(self, model, units):
        units.drain()
        scripted = torch.jit.script(model.first)
        assert len(model._forward_pre_hooks) == 1
        scripted(torch.zeros(1, 4))
        assert names(units) == ["Inner"]
        adopted = Inner()
        adopted(torch.zeros(1, 4))
        again = torch.jit.script(adopted)
        assert torch.equal(again(torch.ones(1, 4)), adopted(torch.ones(1, 4)))
        assert names(units) == ["Inner"] * 3
        torch.jit.save(again, io.BytesIO())

    def test_functions_that_take_no_hooks_see_none(self, model, roots):
        seen = []

        def no_hooks(modules, sample):
            for module in modules:
                seen.append(len(module._forward_pre_hooks) + len(module._forward_hooks))
                module(sample)
            return "graphed"

        wrapped = roots._hands_off._wrapped(no_hooks)
        assert wrapped((model,), torch.zeros(1, 4)) == "graphed"
        assert seen == [0]
        assert len(model._forward_pre_hooks) == len(model._forward_hooks) == 1

    def test_their_wrappers_go_with_us(self, model, roots):
        wrapped = torch.cuda.make_graphed_callables, torch.jit._recursive.create_script_module
        assert all(hasattr(function, "__wrapped__") for function in wrapped)
        roots.stop()
        assert torch.cuda.make_graphed_callables is wrapped[0].__wrapped__
        assert torch.jit._recursive.create_script_module is wrapped[1].__wrapped__

    def test_fx(self, units, roots):
        model = Inner()
        model(torch.zeros(1, 4))
        units.drain()

        class Outer(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.inner = model

            def forward(self, x):
                return self.inner(x) + 1

        graph = torch.fx.symbolic_trace(Outer())
        assert [node.op for node in graph.graph.nodes].count("call_module") == 1
        assert "getattr" not in graph.code
        assert torch.equal(graph(torch.ones(1, 4)), model(torch.ones(1, 4)) + 1)

    def test_a_model_that_is_deleted_is_freed_at_once(self, units, roots):
        model = Ranker()
        model(torch.zeros(1, 4))
        units.drain()
        gone = weakref.ref(model)
        del model
        assert gone() is None


def compiled(model, counter):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.compile(model, backend=counter)


class TestDynamo:
    """Hooks on either side of `torch.compile` fire, and add neither a graph nor a warning."""

    @pytest.fixture(autouse=True)
    def _dynamo_is_imported(self):
        importlib.import_module("torch._dynamo")

    @pytest.fixture
    def counter(self):
        from torch._dynamo.testing import CompileCounter

        torch._dynamo.reset()
        yield CompileCounter()
        torch._dynamo.reset()

    def graphs_without_us(self, counter_type):
        counter = counter_type()
        compiled(Ranker(), counter)(torch.zeros(2, 4))
        return counter.frame_count, counter.op_count

    @pytest.mark.parametrize("how", ["before", "outside", "in place"])
    def test_compiled_modules(self, how, units, roots, counter):
        expected = self.graphs_without_us(type(counter))
        model = Ranker()
        if how != "outside":
            roots.adopt(model)
        if how == "in place":
            model.compile(backend=counter)
            called = model
        else:
            called = compiled(model, counter)
        if how == "outside":
            roots.adopt(called)
        for _ in range(3):
            called(torch.zeros(2, 4))
        assert names(units) == ["Ranker"] * 3
        assert (counter.frame_count, counter.op_count) == expected

    def test_a_function_that_calls_a_root_is_one_graph_still(self, units, roots, counter):
        model = Ranker()
        roots.adopt(model)
        function = torch.compile(lambda x: model(x) * 2, backend=counter, fullgraph=True)
        expected = model(torch.ones(2, 4)) * 2
        units.drain()
        assert torch.equal(function(torch.ones(2, 4)), expected)
        assert counter.frame_count == 1

    @pytest.mark.parametrize("strict", [True, False])
    def test_export(self, strict, roots):
        model = Ranker()
        roots.adopt(model)
        program = torch.export.export(model, (torch.zeros(2, 4),), strict=strict)
        assert torch.equal(program.module()(torch.ones(2, 4)), model(torch.ones(2, 4)))

    def test_a_root_is_found_on_the_stack_of_another_thread(self, clock, units, roots, counter):
        inside, leave = threading.Event(), threading.Event()

        class Slow(torch.nn.Module):
            def forward(self, x):
                inside.set()
                leave.wait(10)
                return x

        model = Slow()
        thread = threading.Thread(target=model, args=(torch.zeros(1),))
        thread.start()
        inside.wait(10)
        roots.tick(clock.perf_ns())
        leave.set()
        thread.join()
        model(torch.zeros(1))
        assert names(units) == ["Slow"]
        assert not sys.modules["torch.nn.modules.module"]._global_forward_pre_hooks


@pytest.mark.usefixtures("no_dynamo", "roots")
def test_a_torch_whose_dynamo_lacks_its_switch_is_followed_all_the_same(monkeypatch, units):
    model = Ranker()
    model(torch.zeros(2, 4))
    monkeypatch.setitem(sys.modules, "torch._dynamo", object())
    monkeypatch.delitem(sys.modules, "torch._C._dynamo.eval_frame", raising=False)
    model(torch.zeros(2, 4))
    assert names(units) == ["Ranker"] * 2


def test_without_torch_there_is_nothing_to_do(monkeypatch, tracker):
    monkeypatch.delitem(sys.modules, "torch.nn.modules.module")
    clock = FakeClock()
    roots = Roots(clock, Units(clock, tracker))
    roots.start()
    roots.tick(clock.perf_ns())
    assert roots.status().detail == "torch is not imported yet"
    roots.stop()
