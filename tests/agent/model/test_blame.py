"""Which frame of a stack is pointed at."""

import pytest
from midwatch.model.blame import own_depth, own_frame
from midwatch.model.site import Frame


def stack(*parts):
    return tuple(Frame("f.py", 1, function, module) for module, function in parts)


HANDLER = ("app.serve", "rank")
LOOP = ("asyncio.base_events", "BaseEventLoop._run_once")
STARTED = ("__main__", "<module>")


@pytest.mark.parametrize(
    ("frames", "depth"),
    [
        (stack(HANDLER, LOOP, STARTED), 0),
        (stack(("torch.nn.functional", "linear"), ("json", "dumps"), HANDLER, LOOP, STARTED), 2),
        (stack(("midwatch_client.demo.ranker.rules", "penalties")), 0),
        (stack(("midwatch.watch.sampler", "run"), STARTED), 1),
        (stack(("uvicorn.protocols.http.h11_impl", "send"), LOOP, STARTED), None),
        (stack(("starlette.routing", "app"), ("asyncio.runners", "Runner.run"), STARTED), None),
        (stack(("threading", "wait"), ("concurrent.futures.thread", "_worker")), 0),
        ((), None),
    ],
)
def test_the_innermost_frame_of_the_service_s_own_that_is_at_work(frames, depth):
    assert own_depth(frames) == depth
    assert (own_frame(frames) is None) == (depth is None)


@pytest.mark.parametrize(
    ("name", "known_as"),
    [
        ("penalties.<locals>.<genexpr>", "penalties"),
        ("f.<locals>.<listcomp>.<locals>.<lambda>", "f"),
        ("make.<locals>.inner", "make.<locals>.inner"),
        ("<module>", "<module>"),
    ],
)
def test_a_generator_goes_by_its_function_s_name(name, known_as):
    assert own_frame(stack(("app", name))).function == known_as
