"""Nothing wrong either: the whole model is one CUDA graph, and the device is busy nearly all the time."""

import midwatch.auto  # isort: skip

from _graph import captured
from _loop import Handler, Run
from _model import backbone, token_ids

run = Run("classify")


def make_handler() -> Handler:
    stage, ids = backbone(run.device, depth=30), token_ids(run.device)
    if not run.cuda:
        return lambda: stage(ids).argmax(dim=-1).cpu()
    held, replay = ids.pin_memory(), captured(lambda inputs: stage(inputs).argmax(dim=-1), ids.to(run.device))
    return lambda: replay(held).cpu()


run.closed_loop(make_handler)
