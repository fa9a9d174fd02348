"""The parts by name, and the process of one."""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import time
from pathlib import Path
from types import SimpleNamespace

from soaking import batcher, beside, freeze, load
from soaking.look import look
from soaking.service import SERVICES

PARTS = {
    "freeze16": freeze.part_freeze16,
    "freeze2": freeze.part_freeze2,
    "soak": load.part_soak,
    "threads": load.part_threads,
    "deep": load.part_deep,
    "idle": load.part_idle,
    "user": beside.part_user,
    "batcher": batcher.part_batcher,
    "exit": beside.part_exit,
    "saved": load.part_saved,
    "unsaved": load.part_unsaved,
}
LIMITS_S = {"soak": 330, "freeze2": 130, "freeze16": 130}
LIMIT_S = 110
ALONE = ("soak", "freeze2", "freeze16")
"""Nothing else runs beside these; all others run at once."""


def run_part(name, quick, device, folder):
    """In the child: run one part and leave ``result.json``."""
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR1)
    from midwatch.capture.environment import prepare_environment

    prepare_environment()
    if name.startswith("freeze"):  # before torch sizes its pools
        os.sched_setaffinity(0, set(sorted(os.sched_getaffinity(0))[: int(name[6:])]))
    import torch

    chosen = device if device != "auto" else ("cuda" if torch.cuda.is_available() else "cpu")
    env = SimpleNamespace(
        torch=torch,
        device=chosen,
        folder=folder,
        number=lambda full, small: small if quick else full,
        seconds=lambda full: full / 10 if quick else full,
        keep=keep,
    )
    begin = time.monotonic()
    try:
        result = PARTS[name](env)
    finally:
        for service in SERVICES:  # operators on a daemon thread abort the process when the interpreter goes
            service.stop()
    result["part_s"] = round(time.monotonic() - begin, 1)
    result["torch"], result["device"] = torch.__version__, chosen
    Path(folder, "result.json").write_text(json.dumps(result))


def keep(path, as_name):
    """Leave a packed copy of a trace in $OUT."""
    if os.environ.get("OUT"):
        Path(os.environ["OUT"]).mkdir(parents=True, exist_ok=True)
        look("pack", path=path, to=str(Path(os.environ["OUT"], as_name)))
