"""A process that exits, or forks, while a window of its profiler thread is open: ``leaver.py cuda recording``."""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "agent"))

from midwatch.capture import session as sessions
from midwatch.capture.environment import prepare_environment


def main(device, how):
    faulthandler.enable()  # its parent sends SIGABRT where it hangs; a timer of its own would hang the forked child
    prepare_environment()
    import torch
    from midwatch.capture.select import choose_engine

    x = torch.ones(64, 64, device=device)
    (x @ x).sum().item()
    sessions.EXIT_TIMEOUT_S = 2.0
    engine, parts = choose_engine("auto", service="exit")
    if engine is None:
        raise RuntimeError(f"no engine works here: {parts}")
    opened = threading.Event()

    if how == "user":  # a session of the service's own that ends just before the process does
        sessions.install()
        activity = torch.profiler.ProfilerActivity
        with torch.profiler.profile(activities=[activity.CUDA if device == "cuda" else activity.CPU]) as mine:
            x @ x
        print("leaving after", len(mine.events()), "events of the user's", flush=True)
        return

    def window():
        engine.open(deep=False)
        opened.set()
        if how == "deaf":
            time.sleep(20)
        elif how == "stop":
            engine.close("/dev/null")
        else:
            sessions.session.wanted.wait(20)
        engine.abort()

    threading.Thread(target=window, daemon=True).start()
    opened.wait(40)
    for _ in range(0 if how == "stop" else 200):
        x @ x
    if how == "fork":
        child = os.fork()
        if child == 0:
            sys.exit(7)
        print("child", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    print("leaving with", sessions.session.refusal() or "no window open", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
