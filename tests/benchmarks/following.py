"""Prints what following the calls of a root module costs a marked request, beside the same model without hooks.

    python tests/benchmarks/following.py [--layers 1 4 24] [--rounds 15]

One process with a running agent. Each round runs the same model several times in random order: marked (A), marked again
(A/A), marked and followed; a figure is the median of a round set against that of its A, and then the median of the
rounds. The unmarked model stands beside, and one with hooks that do nothing, which torch's own way to them costs. On
one thread, on the CPU, in a closed loop; nothing is asserted.
"""

from __future__ import annotations

import argparse
import contextlib
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import midwatch
import torch
from midwatch import api

CALLS = 800
NAMES = ("marked (A)", "marked again (A/A)", "marked and followed", "marked, empty hooks", "unmarked")
SETTINGS: dict[str, Any] = {"collector": "", "routine": 0.0, "windows_per_hour": 0}


def model_of(layers: int) -> torch.nn.Module:
    """Small layers, so that the model takes some ten microseconds a layer."""
    parts = [part for _ in range(layers) for part in (torch.nn.Linear(64, 64), torch.nn.ReLU())]
    return torch.nn.Sequential(*parts).eval()


def median_us(call: Callable[[], object]) -> float:
    """The median of many calls, microseconds."""
    times = []
    for _ in range(CALLS):
        begin = time.perf_counter_ns()
        call()
        times.append(time.perf_counter_ns() - begin)
    return statistics.median(times) / 1e3


@contextlib.contextmanager
def empty_hooks(model: torch.nn.Module) -> Iterator[None]:
    """Hooks of the agent's kind that do nothing."""
    handles = (
        model.register_forward_pre_hook(lambda *_call: None, with_kwargs=True),
        model.register_forward_hook(lambda *_call: None, always_call=True),
    )
    yield
    for handle in handles:
        handle.remove()


def measure(layers: int, rounds: int) -> dict[str, list[float]]:
    """By name, the medians of all rounds."""
    model, batch = model_of(layers), torch.randn(8, 64)
    agent: Any = api._agent
    roots = agent._roots

    def marked() -> None:
        with midwatch.request("rank"):
            model(batch)

    roots.adopt(model)
    found: dict[str, list[float]] = {name: [] for name in NAMES}
    for number in range(rounds + 1):
        for name in random.sample(NAMES, len(NAMES)):
            with contextlib.ExitStack() as stack:
                if "followed" not in name:
                    stack.enter_context(roots.without_hooks([model]))
                if "empty" in name:
                    stack.enter_context(empty_hooks(model))
                took_us = median_us(marked if name != "unmarked" else lambda: model(batch))
            if number:  # the first round warms up
                found[name].append(took_us)
    return found


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, nargs="+", default=[1, 4, 24])
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as state, torch.inference_mode():
        midwatch.start(service="following", state_dir=state, **SETTINGS)
        warm = model_of(1)
        end_s = time.monotonic() + 3.0  # the agent is up, and its hook on all modules is gone
        while time.monotonic() < end_s:
            with midwatch.request("rank"):
                warm(torch.randn(8, 64))
        print(f"{'':32} {'median':>10} {'more than A':>22}")
        for layers in options.layers:
            found = measure(layers, options.rounds)
            for name, times in found.items():
                pairs = list(zip(times, found[NAMES[0]], strict=True))
                more_us = statistics.median(one - a for one, a in pairs)
                ratio = statistics.median(one / a - 1 for one, a in pairs)
                shown = "" if name == NAMES[0] else f"{more_us:+8.1f} us {ratio:+8.1%}"
                print(f"{layers:3} layers, {name:20} {statistics.median(times):7.1f} us {shown:>22}", flush=True)
        midwatch.stop()


if __name__ == "__main__":
    main()
