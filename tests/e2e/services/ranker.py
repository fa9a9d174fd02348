"""A small service with torch and no word of Midwatch in it: one model, with Python work between its stages."""

import argparse
import gc
import json
import signal
import threading
import time
from pathlib import Path

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--profile-itself", action="store_true", help="use torch.profiler now and then, as a user might")
parser.add_argument("--report", default="", help="a file that gets one JSON document at the end")
given = parser.parse_args()

torch.set_num_threads(1)
ended = threading.Event()
signal.signal(signal.SIGTERM, lambda _number, _frame: ended.set())


class Ranker(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(256, 256)
        self.second = nn.Linear(256, 256)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        weight = rules()
        return self.second(x * weight)


def rules() -> float:
    return sum(number % 7 for number in range(60_000)) * 1e-6  # FAULT


model, batch = Ranker().eval(), torch.randn(64, 256)
gc.collect()
gc.freeze()  # what importing torch has left behind is not walked amid the requests
requests = own_profiles = 0
print("up", flush=True)
while not ended.is_set():
    with torch.inference_mode():
        model(batch)
    requests += 1
    time.sleep(0.001)
    if given.profile_itself and requests % 60 == 0:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profiler:
            model(batch)
        own_profiles += bool(profiler.events())
        print("profiled", flush=True)
if given.report:
    with Path(given.report).open("w") as out:
        json.dump({"requests": requests, "own_profiles": own_profiles}, out)
