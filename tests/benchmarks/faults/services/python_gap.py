"""Plain Python between two stages, while the device has nothing to do."""

import midwatch.auto  # isort: skip

from _loop import Handler, Run
from _model import Head, backbone, token_ids

run = Run("search")
WORDS = [f"word{number % 97}" for number in range(2500)]


def rescore() -> float:
    return sum(len(word) * 0.5 + hash(word) % 7 for word in WORDS for _ in range(12))  # FAULT


def make_handler() -> Handler:
    first, second, ids = backbone(run.device, depth=8), backbone(run.device, depth=8), token_ids(run.device)
    head, known = Head(4), rescore()

    def handle() -> None:
        x = first(ids.to(run.device))
        bias = known if run.repaired else rescore()
        head(second(ids.to(run.device)) + x * bias).cpu()

    return handle


run.closed_loop(make_handler)
