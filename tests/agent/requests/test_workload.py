import pytest
import torch
from midwatch.requests import workload as module
from midwatch.requests.workload import Inputs, describe


def test_tensors_are_found_in_what_models_are_given():
    batch = {"ids": torch.zeros(2, 3, dtype=torch.int64), "mask": [torch.ones(2, 3, dtype=torch.bool)]}
    workload = describe((batch, 7, "text", None), {"x": (torch.zeros(5),)})
    assert workload.inputs == ("int64[2,3]@cpu", "bool[2,3]@cpu", "float32[5]@cpu")
    assert workload.batch == 2


def test_values_and_names_stay_inside():
    workload = describe(("secret", {"key": b"secret"}, 12345), {"other": [1, 2, 3]})
    assert workload.inputs == ()
    assert workload.key == ""


def test_a_scalar_tensor_has_no_batch():
    assert describe((torch.tensor(3.0),), {}).batch == 0


def test_many_and_deep_arguments_are_cut():
    nested = torch.zeros(1)
    for _ in range(10):
        nested = [nested]
    assert describe((nested,), {}).inputs == ()
    assert len(describe(tuple(torch.zeros(1) for _ in range(100)), {}).inputs) == 16


def test_one_tensor_is_described_as_among_others_and_known_again():
    alone = describe((torch.zeros(2, 5),), {})
    assert alone is describe((torch.ones(2, 5),), {})
    assert alone is describe((), {"x": torch.zeros(2, 5)})
    assert alone == describe((torch.nn.Parameter(torch.zeros(2, 5)),), {})
    for other in (torch.zeros(5, 2), torch.zeros(2, 5, dtype=torch.float64), torch.zeros(2, 5, device="meta")):
        assert describe((other,), {}) == describe((other, None), {}) != alone
    assert len(describe((torch.zeros(2, 5),), {"y": torch.zeros(1)}).inputs) == 2


def test_no_more_shapes_than_that_are_remembered(monkeypatch):
    monkeypatch.setattr(module, "_MAX_TEXTS", 3)
    for name in ("_texts", "_workloads", "_of_calls"):
        monkeypatch.setattr(module, name, {})
    for size in range(1, 9):
        assert Inputs().describe((torch.zeros(size, 7),), {}).inputs == (f"float32[{size},7]@cpu",)
    assert [len(cache) for cache in (module._texts, module._workloads, module._of_calls)] == [3, 3, 3]


def test_equal_shapes_have_equal_keys():
    assert describe((torch.zeros(2),), {}).key == describe((torch.ones(2),), {}).key
    assert describe((torch.zeros(2),), {}).key != describe((torch.zeros(3),), {}).key


def test_a_symbolic_size_is_a_question_mark_and_gets_no_guard():
    from torch._dynamo.source import ConstantSource
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

    environment = ShapeEnv()
    dynamic = StatelessSymbolicContext(dynamic_sizes=[DimDynamic.DYNAMIC] * 2)
    fake = FakeTensorMode(shape_env=environment).from_tensor(
        torch.zeros(3, 4), symbolic_context=dynamic, source=ConstantSource("x")
    )
    assert describe((fake,), {}).inputs == ("float32[?,?]@cpu",)
    assert environment.guards == []


@pytest.mark.filterwarnings("ignore")
def test_rows_of_different_length_are_a_question_mark():
    nested = torch.nested.nested_tensor([torch.zeros(2, 4), torch.zeros(3, 4)])
    workload = describe((nested,), {})
    assert (workload.inputs, workload.batch) == (("float32[2,?]@cpu",), 2)


def test_a_proxy_is_not_touched():
    graph = torch.fx.Graph()
    proxy = torch.fx.Proxy(graph.placeholder("x"))
    assert describe((proxy,), {"y": [proxy]}).inputs == ()
    assert len(graph.nodes) == 1


@pytest.mark.filterwarnings("ignore")
def test_what_a_call_is_compared_with_changes_nothing_of_what_it_is_described_as():
    ids, mask = torch.zeros(2, 3, dtype=torch.int64), torch.ones(2, 3, dtype=torch.bool)
    calls = [
        ((), {}),
        ((torch.zeros(2, 5),), {}),
        ((torch.ones(2, 5),), {}),
        ((torch.zeros(5, 2),), {}),
        ((torch.zeros(2, 5, dtype=torch.float64),), {}),
        ((torch.zeros(2, 5, device="meta"),), {}),
        ((torch.nn.Parameter(torch.zeros(2, 5)),), {}),
        ((torch.nested.nested_tensor([torch.zeros(2, 4), torch.zeros(3, 4)]),), {}),
        ((torch.zeros(()),), {}),
        ((7,), {}),
        ((None,), {}),
        (([torch.zeros(2, 5)],), {}),
        ((ids,), {"mask": mask, "cache": None, "train": False}),
        ((), {"ids": ids, "mask": mask, "cache": None, "train": False}),
        ((), {"ids": mask, "mask": ids, "cache": None, "train": False}),
        ((), {"ids": ids, "mask": mask, "cache": (mask,), "train": False}),
        ((ids, mask), {}),
        (tuple([ids] * 40), {}),
    ]
    inputs = Inputs()
    for before in calls:
        for args, kwargs in calls:
            inputs.describe(*before)
            assert inputs.describe(args, kwargs) == describe(args, kwargs), (before, args, kwargs)


def test_a_call_like_the_last_one_is_not_described_anew(monkeypatch):
    inputs = Inputs()
    for call in (((torch.zeros(2, 5),), {}), ((), {"ids": torch.zeros(1), "cache": None, "train": True})):
        first = inputs.describe(*call)
        with monkeypatch.context() as patch:
            patch.setattr(module, "describe", None)
            assert inputs.describe(*call) is first
            assert Inputs().describe(*call) is first
