"""The whole agent in a service process of its own, with a real companion and no collector."""

import json
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.process

PRELUDE = """
import json, os, sys, threading, time

def until(condition, seconds=30):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it did not come about in time"
        time.sleep(0.005)

def frames(kinds=("spike", "capture", "stats", "status")):
    '''Keeps the frames that the agent sends to its companion, with copies of the files that they name.'''
    from midwatch import api
    until(lambda: api._agent._backroom is not None)
    link = api._agent._backroom._link
    sent, send = [], type(link).send
    def keep(self, frame):
        if frame["t"] in kinds:
            kept = {key: json.loads(value.text) if hasattr(value, "text") else value for key, value in frame.items()}
            if frame.get("tracks_path"):
                kept["tracks"] = json.load(open(frame["tracks_path"]))
                kept["trace"] = json.load(open(frame["trace_path"]))
            sent.append(kept)
        return send(self, frame)
    type(link).send = keep
    api._agent._backroom._intake._send = link.send
    return sent
"""


@pytest.fixture
def run(tmp_path):
    """Runs a script in a process of its own and returns what it printed as JSON in its last line."""

    def run(script, *, seconds=90, **environ):
        path = tmp_path / "service.py"
        path.write_text(PRELUDE + textwrap.dedent(script))
        done = subprocess.run(
            [sys.executable, str(path)],
            env={
                **{name: value for name, value in os.environ.items() if not name.startswith(("MIDWATCH_", "KINETO_"))},
                "MIDWATCH_STATE_DIR": str(tmp_path / "state"),
                "MIDWATCH_COLLECTOR": "127.0.0.1:9",
                **environ,
            },
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    return run


def test_the_import_loads_nothing_of_third_parties(run):
    found = run("""
        before = set(sys.modules)
        import midwatch.auto
        until(lambda: midwatch.status().detail != "the agent is starting")
        time.sleep(1.2)
        new = {name.partition(".")[0] for name in set(sys.modules) - before}
        import sysconfig
        print(json.dumps(sorted(new - set(sys.stdlib_module_names))))
    """)
    assert found == ["midwatch"]


def test_switched_off_it_starts_nothing(run):
    found = run(
        """
        import midwatch.auto
        import midwatch
        with midwatch.request("rank"):
            midwatch.note(batch=1)
        midwatch.step()
        status = midwatch.status()
        print(json.dumps({
            "threads": [thread.name for thread in threading.enumerate()],
            "state": status.state, "detail": status.detail, "capture": midwatch.capture(),
            "agent": "midwatch.agent" in sys.modules, "kineto": os.environ.get("KINETO_LOG_LEVEL"),
        }))
        """,
        MIDWATCH_ENABLED="0",
    )
    assert found == {
        "threads": ["MainThread"],
        "state": "off",
        "detail": "switched off (MIDWATCH_ENABLED=0)",
        "capture": "",
        "agent": False,
        "kineto": None,
    }


def test_a_spike_is_caught_in_the_act_and_told_with_its_line(run):
    found = run("""
        import midwatch
        midwatch.start(service="ranker", warmup_requests=5)
        sent = frames()

        def slow():
            time.sleep(0.08)

        @midwatch.request("rank")
        def rank(last=False):
            slow() if last else time.sleep(0.001)

        for _ in range(220):
            rank()
        until(lambda: any(f["t"] == "stats" for f in sent))
        until(lambda: midwatch.status().requests >= 220)
        rank(last=True)
        until(lambda: any(f["t"] == "spike" for f in sent))
        spike = next(f["spike"] for f in sent if f["t"] == "spike")
        samples = [s for s in spike["samples"] if s["role"] == "request"]
        line = slow.__code__.co_firstlineno + 1
        print(json.dumps({
            "rule": spike["rule"], "route": spike["request"]["route"],
            "baseline": spike["baseline"]["requests"],
            "lines": sorted({(s["frames"][0]["function"], s["frames"][0]["line"] - line) for s in samples}),
            "host": len(spike["host"]), "state": midwatch.status().state,
        }))
    """)
    assert found["rule"] == "sketch"
    assert (found["route"], found["state"]) == ("rank", "on")
    assert found["baseline"] >= 200
    assert found["lines"] == [["slow", 0]]


def test_a_real_window_holds_whole_requests_units_and_samples(run):
    found = run("""
        import midwatch.auto
        import torch, midwatch
        sent = frames()

        class Ranker(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.layers = torch.nn.ModuleList(torch.nn.Linear(64, 64) for _ in range(4))
            def forward(self, x):
                for layer in self.layers:
                    x = torch.relu(layer(x))
                return x

        model, stop = Ranker(), threading.Event()

        def serve():
            with torch.inference_mode():
                while not stop.is_set():
                    with midwatch.request("rank"):
                        model(torch.zeros(8, 64))
                        time.sleep(0.02)  # so long that few follow the tenth before the window is closed
                    time.sleep(0.001)

        thread = threading.Thread(target=serve, name="server")
        thread.start()
        until(lambda: midwatch.status().requests > 40)
        until(lambda: midwatch.status().engine)
        capture_id = midwatch.capture(requests=10)
        captures = lambda: [f for f in sent if f["t"] == "capture" and f["capture"]["capture_id"] == capture_id]
        until(captures)
        stop.set()
        thread.join()
        (frame,) = captures()
        capture, tracks, trace = frame["capture"], frame.get("tracks"), frame.get("trace")
        midwatch.stop()
        print(json.dumps({
            "state": capture["state"], "detail": capture["detail"],
            "route": capture["route"], "inputs": capture["workload"]["inputs"],
            "baseline": capture["baseline"]["requests"],
            "requests": len(tracks["requests"]), "units": sorted({u["name"] for u in tracks["units"]}),
            "frames": sorted({f["function"].split(".")[-1] for f in tracks["frames"]}),
            "ops": sum(e.get("cat") == "cpu_op" for e in trace["traceEvents"]),
            "inside": sum(
                capture["start_unix_ns"] <= r["start_unix_ns"]
                and r["start_unix_ns"] + r["duration_ns"] <= capture["end_unix_ns"] for r in tracks["requests"]
            ),
            "hooks": [len(model._forward_pre_hooks), len(model._forward_hooks)],
            "threads": [t.name for t in threading.enumerate() if t.name.startswith("midwatch")],
            "state_after": midwatch.status().detail,
        }))
    """)
    assert (found["state"], found["route"]) == ("done", "rank"), found["detail"]
    assert found["inputs"] == ["float32[8,64]@cpu"]
    assert found["baseline"] >= 20
    assert 10 <= found["inside"] <= found["requests"] <= 16
    assert found["units"] == ["Ranker"]
    assert "serve" in found["frames"]
    assert found["ops"] > 50
    assert (found["hooks"], found["threads"], found["state_after"]) == ([0, 0], [], "stopped")


def test_a_service_that_forks_after_the_import(run):
    found = run("""
        import midwatch.auto
        import midwatch
        states = lambda: {part.name: part.state for part in midwatch.status().parts}
        until(lambda: states().get("gc") == "on" and states()["companion"] == "unavailable")
        with midwatch.request("before"):
            pass
        reader, writer = os.pipe()
        pid = os.fork()
        if pid == 0:
            with midwatch.request("rank"):
                midwatch.note(batch=1)
            midwatch.capture()
            midwatch.start()
            status = midwatch.status()
            midwatch.stop()
            parts = {part.name: [part.state, part.detail] for part in status.parts}
            told = [status.state, status.detail, threading.active_count(), status.engine, parts]
            os.write(writer, json.dumps(told).encode())
            sys.exit(0)
        os.close(writer)
        child = json.loads(os.read(reader, 65536))
        code = os.waitpid(pid, 0)[1]
        with midwatch.request("after"):
            pass
        until(lambda: midwatch.status().requests == 2)
        print(json.dumps({"child": child, "code": code, "parent": midwatch.status().state}))
    """)
    state, detail, threads, engine, parts = found["child"]
    assert (state, threads, found["code"]) == ("off", 1, 0)
    assert detail.startswith("forked: ")
    assert engine == ""
    assert {state for state, _ in parts.values()} <= {"off", "unavailable"}
    for name in ("gc", "companion", "windows"):
        assert parts[name][0] == "off"
        assert "forked from" in parts[name][1]
    assert found["parent"] == "warming_up"


def test_a_part_that_could_not_start_for_want_of_descriptors_starts_later(run):
    found = run("""
        import midwatch
        pipe2, failures = os.pipe2, [OSError(24, "Too many open files")] * 2

        def short(flags):
            if failures:
                raise failures.pop()
            return pipe2(flags)

        os.pipe2 = short
        midwatch.start(service="ranker")
        windows = lambda: {part.name: part for part in midwatch.status().parts}.get("windows")
        until(lambda: windows() and windows().state == "failed")
        state, detail = midwatch.status().state, windows().detail
        import torch
        until(lambda: windows().state == "on")
        print(json.dumps([state, detail, midwatch.status().state]))
    """)
    assert found == ["degraded", "the profiler thread does not run; the log has the error", "warming_up"]


def test_a_fork_amid_an_import_of_the_agents_waits_for_it(run):
    """Else the child inherits the lock of a module without the thread that holds it, and its own import hangs."""
    found = run("""
        import signal
        importing, forked = threading.Event(), threading.Event()

        class Slow:
            def find_spec(self, name, path=None, target=None):
                if name == "midwatch.backroom" and threading.current_thread() is not threading.main_thread():
                    importing.set()
                    forked.wait(0.3)  # so long the fork has to come in between

        sys.meta_path.insert(0, Slow())
        import midwatch.auto
        assert importing.wait(20)
        pid = os.fork()
        if pid == 0:
            signal.alarm(10)
            import midwatch.backroom
            os._exit(0)
        forked.set()
        print(json.dumps(os.waitpid(pid, 0)[1]))
    """)
    assert found == 0


def test_bad_settings_are_said_and_harm_nothing(run):
    found = run(
        """
        import midwatch
        midwatch.start(engine="nonsense", colour="red")
        midwatch.start(service="second")
        with midwatch.request("rank"):
            pass
        until(lambda: midwatch.status().requests == 1)
        status = midwatch.status()
        print(json.dumps({"state": status.state, "detail": status.detail}))
        """,
        MIDWATCH_SLO_MS="soon",
    )
    assert found["state"] == "degraded"
    for word in ("engine", "colour", "MIDWATCH_SLO_MS"):
        assert word in found["detail"]


def test_it_can_be_stopped_and_started_again(run):
    found = run("""
        import midwatch
        counts = []
        for _ in range(2):
            midwatch.start(service="ranker")
            with midwatch.request("rank"):
                pass
            until(lambda: midwatch.status().requests == 1)
            midwatch.stop()
            midwatch.stop()
            counts.append(threading.active_count())
        midwatch.status()
        print(json.dumps(counts))
    """)
    assert found == [1, 1]


def test_stopping_waits_no_longer_than_it_says_where_the_companion_hangs(run):
    """Counted are the seconds that it means to wait: those that it takes grow with what else runs here."""
    waited_s, left = run("""
        import os, select, signal
        import midwatch
        midwatch.start(service="ranker")
        with midwatch.request("rank"):
            pass
        until(lambda: midwatch.status().requests == 1)
        from midwatch import api
        process = api._agent._backroom._link._child._process
        os.kill(process.pid, signal.SIGSTOP)
        with midwatch.request("rank"):
            pass
        from midwatch.link.link import Link
        asked, poll, wait = [], Link._wait, process.wait

        def polled(link, seconds, what):
            if what == select.POLLIN:
                asked.append(seconds)
            poll(link, seconds, what)

        def waited(timeout=None):
            if threading.current_thread().name != "midwatch-see-off":
                asked.append(999.0 if timeout is None else timeout)
            return wait(timeout)

        Link._wait, process.wait = polled, waited
        midwatch.stop()
        left = process.poll() is None
        os.kill(process.pid, signal.SIGCONT)
        print(json.dumps([sum(asked), left]))
    """)
    assert 0 < waited_s < 3.5
    assert left


def test_the_end_of_the_process_is_quick_and_leaves_no_companion(run, tmp_path):
    begin = time.monotonic()
    run("""
        import midwatch.auto
        import midwatch
        for _ in range(100):
            with midwatch.request("rank"):
                time.sleep(0.001)
        until(lambda: midwatch.status().requests == 100)
        print(json.dumps(True))
    """)
    assert time.monotonic() - begin < 20
    end = time.monotonic() + 30
    while _companions(tmp_path):
        assert time.monotonic() < end, "the companion lives on"
        time.sleep(0.05)


def test_a_process_that_ends_at_once_ends_well_and_starts_nothing_for_it(run):
    script = """
        import midwatch.auto, midwatch
        midwatch.stop()
        print(json.dumps(["midwatch.backroom" in sys.modules, "subprocess" in sys.modules]))
    """
    assert run(script) == [False, False]


def test_a_process_that_ends_at_once_loses_no_request(run):
    script = """
        import midwatch.auto, midwatch
        from midwatch import api
        agent = api._agent
        with midwatch.request("rank"):
            pass
        midwatch.stop()
        print(json.dumps(agent.status().requests))
    """
    assert run(script) == 1


def test_an_agent_that_cannot_start_says_so_and_leaves_nothing_behind(run):
    script = """
        class Full(threading.Thread):
            def start(self):
                raise RuntimeError("can't start new thread")
        thread, threading.Thread = threading.Thread, Full
        import midwatch.auto, midwatch
        threading.Thread = thread
        with midwatch.request("rank"):
            pass
        status = midwatch.status()
        hooks = [type(finder).__name__ for finder in sys.meta_path if type(finder).__module__.startswith("midwatch")]
        print(json.dumps([status.state, status.detail, midwatch.capture(), hooks]))
    """
    state, detail, capture, hooks = run(script)
    assert (state, capture, hooks) == ("off", "", [])
    assert detail == "could not be started (RuntimeError: can't start new thread); the log has more"


def test_an_agent_whose_background_fails_marks_no_more(run):
    script = """
        import midwatch.auto, midwatch
        from midwatch import api, config
        import midwatch.link.link
        def broken(*_args, **_kwargs):
            raise RuntimeError("broken")
        midwatch.link.link.Link.__init__ = broken
        with midwatch.request("early"):
            pass
        until(lambda: midwatch.status().state == "degraded")
        agent = api._agent
        with midwatch.request("late"):
            inside = midwatch.status().in_flight
        for _ in range(10):
            midwatch.capture()
        status = midwatch.status()
        print(json.dumps([inside, agent._tracker.finished() > 0, status.detail, status.drops]))
    """
    inside, finished, detail, drops = run(script)
    assert (inside, finished) == (0, False)
    assert detail == "the agent could not start; the log has the error."
    assert drops == [["order_before_start", 6]]


def test_compiling_while_the_agent_looks_for_roots_warns_of_nothing(run):
    found = run("""
        import warnings
        warnings.simplefilter("error")
        import midwatch.auto
        import torch, midwatch
        module = sys.modules["torch.nn.modules.module"]
        hooked = len(module._global_forward_pre_hooks)
        model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU())
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import torch._dynamo
        compiled = torch.compile(model, backend="eager")
        compiled(torch.zeros(1, 4))
        print(json.dumps([hooked, len(module._global_forward_pre_hooks), midwatch.status().guarded_errors]))
    """)
    assert found == [1, 0, []]


def _companions(directory: Path) -> list[str]:
    """Companions whose working directory or environment names this test's."""
    found = []
    for process in Path("/proc").iterdir():
        if not process.name.isdigit():
            continue
        try:
            environ = (process / "environ").read_bytes()
            command = (process / "cmdline").read_bytes()
        except OSError:
            continue
        if b"midwatch.companion" in command and str(directory).encode() in environ:
            found.append(process.name)
    return found
