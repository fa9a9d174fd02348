import copy
import importlib
import importlib.util
import inspect
import pickle
import pkgutil
import sys
import threading

import pytest


@pytest.fixture
def library(tmp_path, monkeypatch):
    """Two modules that are not imported yet, one of a package."""
    package = tmp_path / "midwatch_fixture_pkg"
    package.mkdir()
    (package / "__init__.py").write_text("VALUE = 1\n")
    (package / "part.py").write_text("class Thing:\n    pass\n")
    (tmp_path / "midwatch_fixture_pkg2.py").write_text("")
    (tmp_path / "midwatch_fixture_bad.py").write_text("raise RuntimeError('no')\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield
    for name in [name for name in sys.modules if name.startswith("midwatch_fixture")]:
        del sys.modules[name]


pytestmark = pytest.mark.usefixtures("library")


def test_a_callback_comes_after_the_module_has_run(hooks):
    seen = []
    hooks.after("midwatch_fixture_pkg", lambda module: seen.append(module.VALUE))
    assert hooks in sys.meta_path
    import midwatch_fixture_pkg

    assert seen == [1]
    assert midwatch_fixture_pkg.VALUE == 1


def test_the_hooks_leave_the_path_at_their_stop_alone(hooks):
    """A thread that is going through the path as an entry leaves misses the finder behind it."""
    hooks.after("midwatch_fixture_pkg", lambda module: None)
    importlib.import_module("midwatch_fixture_pkg")
    assert sys.meta_path.count(hooks) == 1
    hooks.stop()
    assert hooks not in sys.meta_path


def test_who_only_looks_for_a_module_finds_a_loader_as_it_is(hooks):
    hooks.after("midwatch_fixture_pkg", lambda module: None)
    spec = importlib.util.find_spec("midwatch_fixture_pkg")
    assert spec.loader.get_source("midwatch_fixture_pkg") == "VALUE = 1\n"
    assert pkgutil.get_data("midwatch_fixture_pkg", "part.py").startswith(b"class Thing")
    copied = copy.copy(importlib.util.find_spec("midwatch_fixture_pkg").loader)
    assert copied.is_package("midwatch_fixture_pkg")


def test_what_goes_wrong_behind_an_import_does_not_come_out_of_it(hooks, swallowed, monkeypatch):
    hooks.after("midwatch_fixture_pkg", lambda module: None)

    class Broken(dict):
        def pop(self, *_args):
            raise RuntimeError("broken")

    monkeypatch.setattr(hooks, "_callbacks", Broken(hooks._callbacks))
    assert importlib.import_module("midwatch_fixture_pkg").VALUE == 1
    assert [place for place, _ in swallowed] == ["import.done"]
    swallowed.clear()


def test_a_finder_that_asks_for_the_module_again_gets_an_answer(hooks):
    class Curious:
        asked = 0

        def find_spec(self, name, path=None, target=None):
            if name == "midwatch_fixture_pkg":
                self.asked += 1
                importlib.import_module("midwatch_fixture_pkg2")
                return importlib.util.find_spec(name) if self.asked == 1 else None
            return None

    for name in ("midwatch_fixture_pkg", "midwatch_fixture_pkg2"):
        hooks.after(name, lambda module: None)
    curious = Curious()
    sys.meta_path.insert(1, curious)
    try:
        assert importlib.import_module("midwatch_fixture_pkg").VALUE == 1
    finally:
        sys.meta_path.remove(curious)
    assert curious.asked == 2


def test_a_module_that_is_imported_already_is_seen_at_once(hooks):
    import midwatch_fixture_pkg.part

    seen = []
    hooks.after("midwatch_fixture_pkg.part", seen.append)
    assert seen == [midwatch_fixture_pkg.part]
    assert hooks not in sys.meta_path


def test_the_module_looks_as_if_nobody_had_watched(hooks):
    for name in ("midwatch_fixture_pkg", "midwatch_fixture_pkg.part"):
        hooks.after(name, lambda module: None)
    part = importlib.import_module("midwatch_fixture_pkg.part")
    assert type(part.__loader__).__module__.startswith(("_frozen_importlib", "importlib"))
    assert type(part.__spec__.loader) is type(part.__loader__)
    assert "class Thing" in inspect.getsource(part)
    assert isinstance(pickle.loads(pickle.dumps(part.Thing())), part.Thing)
    assert importlib.reload(part) is part


def test_a_module_that_fails_fails_as_before_and_is_waited_for_still(hooks):
    seen = []
    hooks.after("midwatch_fixture_bad", seen.append)
    with pytest.raises(RuntimeError, match="no"):
        importlib.import_module("midwatch_fixture_bad")
    assert seen == []
    assert hooks in sys.meta_path


def test_a_module_that_is_not_there_is_not_there(hooks):
    hooks.after("midwatch_fixture_missing", lambda module: None)
    with pytest.raises(ModuleNotFoundError):
        importlib.import_module("midwatch_fixture_missing")


def test_a_callback_that_fails_is_our_affair(hooks, swallowed):
    seen = []
    hooks.after("midwatch_fixture_pkg", lambda module: 1 / 0)
    hooks.after("midwatch_fixture_pkg", seen.append)
    assert importlib.import_module("midwatch_fixture_pkg").VALUE == 1
    assert len(seen) == 1
    assert [place for place, _ in swallowed] == ["import.midwatch_fixture_pkg"]
    swallowed.clear()


def test_a_module_that_came_past_us_is_found_by_polling(hooks):
    seen = []
    hooks.after("midwatch_fixture_pkg", seen.append)
    sys.meta_path.remove(hooks)
    importlib.import_module("midwatch_fixture_pkg")
    assert seen == []
    hooks.poll()
    hooks.poll()
    assert len(seen) == 1


def test_threads_that_import_at_once_see_one_call(hooks):
    seen = []
    hooks.after("midwatch_fixture_pkg", seen.append)
    threads = [threading.Thread(target=importlib.import_module, args=("midwatch_fixture_pkg",)) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) == 1


def test_after_the_stop_nothing_is_called(hooks):
    seen = []
    hooks.after("midwatch_fixture_pkg", seen.append)
    hooks.stop()
    importlib.import_module("midwatch_fixture_pkg")
    hooks.after("midwatch_fixture_pkg", seen.append)
    hooks.after("midwatch_fixture_other", seen.append)
    assert seen == []
    assert hooks not in sys.meta_path
