"""Nothing wrong: bound by the device, in bfloat16, and the only wait is the hand-over of the result."""

import midwatch.auto  # isort: skip

from _loop import Handler, Run
from _model import backbone, token_ids

run = Run("classify")


def make_handler() -> Handler:
    stage, ids = backbone(run.device, depth=40), token_ids(run.device)
    ids = ids.pin_memory() if run.cuda else ids

    def handle() -> None:
        stage(ids.to(run.device, non_blocking=True)).argmax(dim=-1).cpu()

    return handle


run.closed_loop(make_handler)
