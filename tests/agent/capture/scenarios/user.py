"""A session of the user's before, in, around and after our windows, with both engines."""

import sys
import threading
import time
from pathlib import Path

import common
from common import STATE, Operators, ProfilerThread, choose_engine, done, session, torch, user_session
from midwatch.capture import session as session_module
from midwatch.capture.base import EngineError
from midwatch.capture.shim import Shim, ShimError


def warm_up(profiler):
    """Our window in the warm-up of a scheduled session of the user's: prepared, not started."""
    schedule = torch.profiler.schedule(wait=0, warmup=1, active=1)
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], schedule=schedule) as profile:
        in_warm_up = profiler.window()
        profile.step()
        torch.ones(4).add(1)
        profile.step()
    return in_warm_up


def matrix(setting):
    profiler, out = ProfilerThread(setting), {}
    with Operators(2, pause_s=0.001):
        out["first"] = profiler.window()
        out["user_seen"], out["inside_users"] = user_session(inside=profiler.window)
        out["warm_up"] = warm_up(profiler)
        out["after_users"] = profiler.window()

        pending = profiler.order(20.0)
        profiler.await_phase("RECORDING")
        begin = time.monotonic()
        out["user_seen_in_ours"] = user_session()
        out["user_waited_s"] = time.monotonic() - begin
        out["in_recording"] = pending.result(30)

        pending = profiler.order(0.3)
        profiler.await_phase("STOP")
        out["user_seen_in_stop"] = user_session()
        out["in_stop"] = pending.result(30)

        pending = profiler.order(5.0)
        profiler.await_phase("OPEN")
        out["user_seen_in_open"] = user_session()
        out["in_open"] = pending.result(30)

        pending = profiler.order(20.0, deep=True)
        profiler.await_phase("RECORDING")
        out["user_seen_in_deep"] = user_session()
        out["in_deep"] = pending.result(30)
        out["last"] = profiler.window()
    return out


def storm(setting, seconds):
    """Both sides without any order between them, for a while."""
    profiler, stop, users = ProfilerThread(setting), threading.Event(), []

    def user():
        while not stop.is_set():
            users.append(user_session())
            time.sleep(0.01)

    states = {}
    with Operators(2, pause_s=0.001):
        thread = threading.Thread(target=user)
        thread.start()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            state = profiler.window(0.01, deep=len(states) % 2 == 1)["state"]
            states[state] = states.get(state, 0) + 1
        stop.set()
        thread.join()
    return {"states": states, "users": len(users), "users_blind": users.count(0)}


def exceptions():
    """Misuse arrives as an answer or an exception of Python's; the process lives on."""
    out = {}
    stopped = Shim().stop()
    try:
        Shim().save(stopped, "/nonexistent/trace.json")
    except ShimError as error:
        out["save_empty"] = str(error)
    profiler = ProfilerThread("direct")
    pending = profiler.order(0.2)
    profiler.await_phase("RECORDING")
    try:
        profiler.engine.close("/nonexistent/trace.json")
    except EngineError as error:
        out["wrong_thread"] = str(error)
    out["its_own_thread"] = pending.result(30)["state"]
    return out


def latched():
    """What a service gets that has crashed in a window of the direct engine."""
    folder = Path(STATE, "latch", f"crashed__{torch.__version__}__direct")
    folder.mkdir(parents=True)
    marker = Path(folder, "1-0.mark")
    marker.write_bytes(b"MWL1" + bytes((2, 11)) + bytes(58))
    engine, parts = choose_engine("auto", service="crashed", state_dir=STATE)
    marker.unlink()
    again, _ = choose_engine("auto", service="crashed", state_dir=STATE)
    return {"engine": engine.name, "why": parts[0].detail, "state": parts[0].state, "again": again.name}


def main():
    user_session()  # the first use of torch.profiler imports for seconds
    results = {setting: matrix(setting) for setting in ("direct", "capped")}
    results["storm"] = storm("direct", float(sys.argv[1]))
    results["exceptions"] = exceptions()
    results["latched"] = latched()
    results["yielded"] = session.yielded
    profile = torch.autograd.profiler.profile
    wrapped = profile._prepare_trace
    session_module.install()
    results["wrapped_once"] = profile._prepare_trace is wrapped
    session_module.uninstall()
    results["unwrapped"] = not hasattr(profile._prepare_trace, "__wrapped__")
    results["flag"] = common.torch.autograd.profiler._is_profiler_enabled
    done(results)


main()
