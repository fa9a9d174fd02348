"""Each thing that speaks against capturing a request in a CUDA graph, seen in a small trace of its own."""

from __future__ import annotations

import pytest
from midwatch.model.site import Frame
from midwatch.trace.summary import summarise


def calm(m):
    """The classic candidate: input copied in, tiny kernels, the result read at the end."""
    link = m.lanes.call("cudaMemcpyAsync", m.clock, m.clock + 30)
    m.lanes.work("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", m.clock + 10, m.clock + 25, link, bytes=8192)
    m.clock += 30
    kernels(m)
    m.read(4096)


def kernels(m, count=20, name="k"):
    for _ in range(count):
        m.think(10)
        m.kernel(2, name)


def between(event):
    """A program with an event in the middle of its launches."""

    def program(m):
        kernels(m)
        event(m)
        kernels(m)
        m.read(4096)

    return program


def call(api, length=5):
    def event(m):
        m.lanes.call(api, m.clock, m.clock + length)
        m.clock += length

    return event


def op(name):
    def event(m):
        m.lanes.op(name, m.clock, m.clock + 4)
        m.clock += 5

    return event


def python(name):
    def event(m):
        m.lanes.python(name, m.clock, m.clock + 40)
        m.clock += 40

    return event


def aside(m):
    m.lanes.launch(m.clock, 5, m.clock + 8, m.clock + 12, stream=20)
    m.clock += 14


def hazards_of(machine, program, folder, times=4):
    for _ in range(times):
        machine.run(program)
    return summarise(machine.lanes.write(folder)).launch.hazards


def test_input_and_result_are_handed_over_outside_of_what_is_captured(machine, tmp_path):
    assert hazards_of(machine, calm, tmp_path) == ()


@pytest.mark.parametrize(
    ("event", "named"),
    [
        (lambda m: m.read(), "sync"),
        (lambda m: m.synchronize(), "sync"),
        (op("aten::is_nonzero"), "tensor_control_flow"),
        (op("aten::nonzero"), "tensor_shapes"),
        (op("aten::masked_select"), "tensor_shapes"),
        (python("<built-in function print>"), "print_or_log"),
        (python("/usr/lib/python3.11/logging/__init__.py(1477): info"), "print_or_log"),
        (call("cudaMalloc"), "allocation"),
        (call("cudaFree"), "empty_cache"),
        (call("cuModuleLoadData"), "warm_up"),
        (call("cudaLibraryLoadData"), "warm_up"),
        (aside, "side_streams"),
        (lambda m: m.kernel(8, "ncclDevKernel_AllReduce_Sum_f32_RING_LL"), "collectives"),
    ],
)
def test_between_the_launches_it_is_named(make_machine, tmp_path, event, named):
    assert hazards_of(make_machine(), between(event), tmp_path) == (named,)

    def outside(m):
        event(m)
        calm(m)

    if named in {"allocation", "empty_cache", "warm_up", "print_or_log", "tensor_control_flow", "tensor_shapes"}:
        assert hazards_of(make_machine(), outside, tmp_path) == ()


def test_memory_taken_by_the_first_requests_alone_is_missing_warm_up(make_machine, tmp_path):
    machine = make_machine()
    machine.run(between(call("cudaMalloc", 200)))
    assert hazards_of(machine, between(lambda m: m.think(1)), tmp_path) == ("warm_up",)
    later = make_machine()
    for number in range(6):
        later.run(between(call("cudaMalloc") if number in {0, 5} else lambda m: m.think(1)))
    assert summarise(later.lanes.write(tmp_path)).launch.hazards == ("allocation",)


def test_a_scalar_read_back_before_launches_that_differ_steers_them(machine, tmp_path):
    for extra in (0, 0, 4):
        machine.run(lambda m, extra=extra: (kernels(m), m.read(), kernels(m, 20 + extra), m.read(4096)))
    names = summarise(machine.lanes.write(tmp_path)).launch.hazards
    assert names == ("sync", "tensor_control_flow", "changing_sequence")


def test_the_same_kernels_with_other_grids_have_changing_shapes(machine, tmp_path):
    for _ in range(3):
        machine.run(calm)
    for event in machine.lanes.events[-30:]:
        if event["cat"] == "kernel":
            event["args"]["grid"] = [9, 1, 1]
    launch = summarise(machine.lanes.write(tmp_path)).launch
    assert (launch.stable_sequence, launch.stable_shapes, launch.hazards) == (True, False, ("changing_shapes",))


@pytest.mark.parametrize(("in_place", "named"), [(True, ()), (False, ("grads_to_none",))])
def test_gradients_that_are_set_to_none_between_steps(machine, tmp_path, in_place, named):
    def step(m):
        kernels(m)
        start = m.clock
        m.think(20)
        if in_place:
            kernels(m, 4, "multi_tensor_apply_kernel")
        m.lanes.host("user_annotation", "Optimizer.zero_grad#SGD.zero_grad", start, m.clock)
        m.read(4096)

    assert hazards_of(machine, step, tmp_path) == named


def test_one_request_shows_no_repetition(machine, tmp_path):
    assert hazards_of(machine, calm, tmp_path, times=1) == ("one_request",)


@pytest.mark.parametrize(("frame", "named"), [("print", ("print_or_log",)), ("logging", ("print_or_log",)), ("", ())])
def test_samples_show_a_print_too(machine, make_agent, tmp_path, frame, named):
    for _ in range(3):
        machine.run(between(lambda m: m.think(400)))
    agent = make_agent(window=(0, machine.clock + 10))
    for event in [e for e in machine.lanes.events if e["name"] == "request"]:
        agent.request(event["ts"], event["ts"] + event["dur"])
        own = Frame("app/rank.py", 12, "rank", "app.rank", callee=frame if frame == "print" else "")
        log = (Frame("logging/__init__.py", 1100, "emit", "logging", callee="write"),) if frame == "logging" else ()
        agent.sample(event["ts"] + 500, 100, (*log, own))
    machine.lanes.events = [e for e in machine.lanes.events if e["name"] != "request"]
    assert summarise(machine.lanes.write(tmp_path, agent.tracks())).launch.hazards == named


@pytest.mark.parametrize(
    ("file", "named"),
    [
        ("h200_light/tiny_kernels.json.gz", ()),
        ("h200_light/item_free.json.gz", ("sync",)),
        ("field/tracelens__bert_small.json.gz", ("sync", "tensor_control_flow", "one_request")),
    ],
)
def test_real_traces(data, file, named):
    launch = summarise(data / file).launch
    assert launch.hazards == named
    assert 0 < launch.replayed_ms < launch.recoverable_ms
