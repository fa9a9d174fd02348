"""Stacks, lines and names of files, on real frames."""

import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest
from midwatch.model.site import Frame
from midwatch.watch.paths import Paths
from midwatch.watch.stacks import DEPTH, Stacks


def here(stacks: Stacks):
    return stacks.look(sys._getframe(1))


def recurse(depth, stacks):
    return recurse(depth - 1, stacks) if depth else here(stacks)


def test_innermost_first_with_names_lines_and_callees():
    stacks = Stacks()

    class Model:
        def forward(self):
            return here(
                stacks,
            )

    frames = [Model().forward()][0]
    line = sys._getframe().f_lineno - 1
    assert frames[0].callee == "here"
    assert frames[0].line == line - 4
    assert frames[0].module == __name__
    assert frames[1].line == line
    assert frames[1].callee == "forward"
    assert frames[1].function == "test_innermost_first_with_names_lines_and_callees"
    expected = "test_innermost_first_with_names_lines_and_callees.<locals>.Model.forward"
    assert frames[0].function == (expected if sys.version_info >= (3, 11) else "forward")
    assert frames[0].file.endswith("test_stacks.py")
    assert all(not frame.file.startswith("/") for frame in frames)


def test_deep_stacks_keep_the_innermost_frames():
    stacks = Stacks()
    frames = recurse(100, stacks)
    assert len(frames) == DEPTH
    assert {frame.function for frame in frames} == {"recurse"}


def test_equal_stacks_are_one_object_and_different_lines_are_not():
    stacks = Stacks()
    same = []
    for _ in range(2):
        same.append(stacks.walk(sys._getframe()))  # noqa: PERF401 - a comprehension is a frame of its own up to 3.11
    other = stacks.walk(sys._getframe())
    assert same[0] is same[1]
    assert other != same[0]
    assert other[1:] == same[0][1:]


def test_code_of_equal_text_in_two_files_stays_apart():
    stacks = Stacks()
    frames = []
    for name in ("one.py", "two.py"):
        namespace = {"here": here, "stacks": stacks, "__name__": name}
        exec(compile("def f(): return here(stacks)\nframes = f()", name, "exec"), namespace)
        frames.append(namespace["frames"][0])
    assert [frame.file for frame in frames] == ["one.py", "two.py"]
    assert [frame.module for frame in frames] == ["one.py", "two.py"]


def test_walking_a_thread_that_runs_gives_its_own_frames(stage):
    stacks = Stacks()

    def spin():
        while not stage.done.is_set():
            sum(range(50))

    thread = stage.start(spin)
    lines = range(spin.__code__.co_firstlineno, spin.__code__.co_firstlineno + 4)
    for _ in range(200):
        frames = stacks.look(sys._current_frames().get(thread.ident))
        mine = [frame for frame in frames if frame.module == __name__]
        assert all(frame.function.endswith("spin") and frame.line in lines for frame in mine)
        assert frames[-1].function in ("Thread._bootstrap", "_bootstrap")


def test_a_subclass_of_dict_as_globals_runs_no_code():
    class Trap(dict):
        def get(self, *_):
            raise AssertionError("code of the host ran")

    namespace = Trap(here=here, stacks=Stacks(), __name__="trap")
    exec("frames = here(stacks)", namespace)
    assert namespace["frames"][0].module == "trap"


@pytest.mark.parametrize(
    ("filename", "module", "expected"),
    [
        ("/srv/app/reco/metrics.py", "reco.metrics", "reco/metrics.py"),
        ("/srv/app/src/reco/model.py", "reco.model", "reco/model.py"),
        ("/opt/venv/lib/python3.11/site-packages/torch/nn/modules/module.py", "torch.nn.modules.module",
         "torch/nn/modules/module.py"),
        ("/usr/lib/python3.11/asyncio/base_events.py", "asyncio.base_events", "asyncio/base_events.py"),
        ("/elsewhere/editable/pkg/sub/thing.py", "pkg.sub.thing", "pkg/sub/thing.py"),
        ("/elsewhere/editable/pkg/sub/__init__.py", "pkg.sub", "pkg/sub/__init__.py"),
        ("/home/alice/secret/run.py", "__main__", "run.py"),
        ("/tmp/torchinductor_bob/ab/cabc.py", "", "cabc.py"),
        ("<frozen importlib._bootstrap>", "importlib._bootstrap", "<frozen importlib._bootstrap>"),
        ("app/serve.py", "__main__", "app/serve.py"),
        ("./serve.py", "__main__", "serve.py"),
        ("../../home/bob/serve.py", "__main__", "serve.py"),
        ("/srv/app/../app/reco/metrics.py", "reco.metrics", "reco/metrics.py"),
    ],
)  # fmt: skip
def test_files_are_relative_to_project_or_package(monkeypatch, filename, module, expected):
    monkeypatch.setattr(
        sys,
        "path",
        ["/srv/app/src", "/srv/app", "/usr/lib/python3.11", "/opt/venv/lib/python3.11/site-packages", "/", "/home"],
    )
    assert Paths().relative(filename, module) == expected


def test_roots_follow_changes_of_the_path(monkeypatch):
    monkeypatch.setattr(sys, "path", ["/srv"])
    paths = Paths()
    assert paths.relative("/srv/app/a.py") == "app/a.py"
    sys.path.append("/srv/app")
    assert paths.relative("/srv/app/b.py") == "b.py"


def test_no_folder_above_the_home_is_a_root(monkeypatch):
    monkeypatch.setenv("HOME", "/data/people/alice")
    monkeypatch.setattr(sys, "path", ["/data", "/data/people", "/data/people/alice"])
    paths = Paths()
    assert paths.relative("/data/people/alice/x/run.py") == "x/run.py"
    assert paths.relative("/data/people/bob/x/run.py") == "run.py"


@pytest.mark.process
def test_a_script_in_a_process_of_its_own(tmp_path):
    (tmp_path / "app").mkdir()
    (tmp_path / "app" / "metrics.py").write_text("import serve\ndef log(s):\n    return serve.look(s)\n")
    script = tmp_path / "app" / "serve.py"
    script.write_text(
        textwrap.dedent(
            """
            import sys
            def look(stacks):
                return stacks.look(sys._getframe(1))
            if __name__ == "__main__":
                from midwatch.watch.stacks import Stacks
                import metrics
                print([(f.file, f.module, f.line, f.callee) for f in metrics.log(Stacks())])
            """
        )
    )
    agent = str(Path(sys.modules["midwatch"].__file__).parents[1])
    done = subprocess.run(
        [sys.executable, "app/serve.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": agent},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == str([("metrics.py", "metrics", 3, "look"), ("serve.py", "__main__", 8, "log")])


def test_naming_survives_threads(stage):
    """Many threads name the same new spots at once: one spot each, and the same answer."""
    stacks, answers, gate = Stacks(), [], threading.Barrier(4)

    def look():
        gate.wait(20)
        answers.append(here(stacks)[0])

    threads = [stage.start(look) for _ in range(4)]
    for thread in threads:
        thread.join(20)
    assert len(set(answers)) == 1
    assert isinstance(answers[0], Frame)


def test_the_way_is_given_before_each_place_that_has_no_name_yet():
    stacks, given = Stacks(), []
    stack = stacks.walk(sys._getframe(), 3)
    named = stacks.frames(stack, lambda: given.append(1))
    assert len(given) == len(named) == 3
    assert stacks.frames(stack, lambda: given.append(1)) == named
    assert len(given) == 3
