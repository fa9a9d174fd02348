"""The interpreter exits while a window is in a given phase; ``deaf``: with a profiler thread that does not obey."""

import sys

from common import ProfilerThread, done, session, torch
from midwatch.capture import session as session_module


def main():
    phase = sys.argv[1]
    session_module.EXIT_TIMEOUT_S = 0.3 if phase == "deaf" else session_module.EXIT_TIMEOUT_S
    profiler = ProfilerThread("direct", obeys=phase != "deaf")
    profiler.window()
    profiler.order(0.05 if phase == "STOP" else 20.0)
    profiler.await_phase("RECORDING")
    for _ in range(20_000 if phase == "STOP" else 200):
        torch.ones(2)
    profiler.await_phase("STOP" if phase == "STOP" else "RECORDING")
    done({"owner": session._owner})


main()
