import torch
from midwatch.requests.workload import describe


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


def test_equal_shapes_have_equal_keys():
    assert describe((torch.zeros(2),), {}).key == describe((torch.ones(2),), {}).key
    assert describe((torch.zeros(2),), {}).key != describe((torch.zeros(3),), {}).key


def test_a_symbolic_size_is_a_question_mark():
    class Symbolic:
        shape = (object(), 4)
        dtype = "torch.float32"
        device = "cpu"
        __hash__ = None

    assert describe((Symbolic(),), {}).inputs == ("float32[?,4]@cpu",)
