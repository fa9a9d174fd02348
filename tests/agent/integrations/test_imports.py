import importlib
import inspect
import pickle
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
    assert hooks not in sys.meta_path


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
    assert seen == []
