"""Nothing wrong either: the whole model is one CUDA graph, and the device is busy nearly all the time."""

import midwatch.auto  # isort: skip

import torch
from _loop import Handler, Run
from _model import backbone, token_ids

run = Run("classify")


def make_handler() -> Handler:
    stage, ids = backbone(run.device, depth=30), token_ids(run.device)
    if not run.cuda:
        return lambda: stage(ids).argmax(dim=-1).cpu()
    held = ids.pin_memory()
    inputs = ids.to(run.device)
    graph = torch.cuda.CUDAGraph()
    with torch.inference_mode():
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            stage(inputs).argmax(dim=-1)
        torch.cuda.current_stream().wait_stream(side)
        with torch.cuda.graph(graph):
            answer = stage(inputs).argmax(dim=-1)

    def handle() -> None:
        inputs.copy_(held, non_blocking=True)
        graph.replay()
        answer.cpu()

    return handle


run.closed_loop(make_handler)
