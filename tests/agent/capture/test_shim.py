"""The compiled shim: what C++ throws becomes an exception of Python's; the build says what is missing."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from pathlib import Path

import pytest
from midwatch.capture import build
from midwatch.capture.build import NoCompilerError, ShimBuildError, build_shim
from midwatch.capture.libraries import opened
from midwatch.capture.shim import Shim, ShimError, Stopped, load_library, shim_path

pytestmark = pytest.mark.usefixtures("built_shim")

THROWER = """
#include <stdexcept>
extern "C" {
void* throws_error() { throw std::runtime_error("first line\\nsecond line"); }
void* throws_number() { throw 42; }
void throws_long(void*) { throw std::runtime_error(std::string(5000, 'x')); }
}
"""


@pytest.fixture(scope="module")
def thrower(tmp_path_factory):
    folder = tmp_path_factory.mktemp("thrower")
    source = folder / "thrower.cpp"
    source.write_text(THROWER)
    subprocess.run(["c++", "-shared", "-fPIC", "-o", str(folder / "thrower.so"), str(source)], check=True)
    library = ctypes.CDLL(str(folder / "thrower.so"))
    return lambda name: ctypes.cast(getattr(library, name), ctypes.c_void_p)


@pytest.fixture
def shim():
    made = Shim.__new__(Shim)
    made.library = load_library()
    return made


def test_a_c_plus_plus_exception_becomes_one_of_pythons(shim, thrower):
    shim._disable = thrower("throws_error")
    with pytest.raises(ShimError, match=r"^first line$"):
        shim.stop()


def test_so_does_one_that_is_no_exception_class(shim, thrower):
    shim._disable = thrower("throws_number")
    with pytest.raises(ShimError, match="unknown type"):
        shim.stop()


def test_and_one_with_a_text_longer_than_the_buffer(shim, thrower):
    shim._destroy = thrower("throws_long")
    with pytest.raises(ShimError, match=r"^x{511}$"):
        shim.free(Stopped(pointer=1, start_ns=1))


def test_an_empty_result_is_never_saved(shim):
    for empty in (Stopped(0, 0), Stopped(1, 0)):
        with pytest.raises(ShimError, match="empty"):
            shim.save(empty, "/nonexistent")


def test_the_shim_links_no_torch():
    needed = subprocess.run(["ldd", str(build.LIBRARY)], capture_output=True, text=True, check=True).stdout
    assert "libstdc++" in needed
    assert "torch" not in needed


def test_an_up_to_date_shim_is_not_built_again(tmp_path):
    target = tmp_path / "_shim.so"
    assert build_shim(target) is True
    assert build_shim(target) is False
    assert build_shim(target, force=True) is True
    assert sorted(path.name for path in tmp_path.iterdir()) == ["_shim.so"]


def test_without_a_compiler_the_build_says_what_is_missing(tmp_path, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(NoCompilerError, match=r"no C\+\+ compiler was found: `apt-get install g\+\+`"):
        build_shim(tmp_path / "_shim.so")


@pytest.mark.parametrize(
    ("compiler", "status", "says"), [("no-such-compiler", 0, "`apt-get"), ("false", 1, "could not")]
)
def test_the_command_says_in_one_line_that_the_direct_engine_is_off(monkeypatch, capsys, compiler, status, says):
    monkeypatch.setenv("CXX", compiler)
    monkeypatch.setattr(sys, "argv", ["build", "--force"])
    assert build.main() == status
    line = capsys.readouterr().err
    assert line.startswith("midwatch: the direct engine is off: ")
    assert says in line
    assert line.count("\n") == 1


def test_a_compiler_that_fails_leaves_nothing_behind(tmp_path, monkeypatch):
    monkeypatch.setenv("CXX", "false")
    with pytest.raises(ShimBuildError, match="could not compile"):
        build_shim(tmp_path / "_shim.so")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.process
def test_a_wheel_carries_the_shim_and_its_platform(tmp_path):
    wheel = build_wheel(tmp_path, CXX="c++")
    assert wheel.name.endswith("-py3-none-linux_x86_64.whl")
    assert "midwatch/capture/_shim.so" in names(wheel)


@pytest.mark.process
def test_a_wheel_can_be_built_without_a_compiler(tmp_path):
    wheel = build_wheel(tmp_path, CXX="no-such-compiler")
    assert wheel.name.endswith("-py3-none-any.whl")
    assert "midwatch/capture/_shim.so" not in names(wheel)


def build_wheel(folder, **environ):
    import os

    root = Path(__file__).parents[3]
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)],
        cwd=root,
        env={**os.environ, **environ},
        capture_output=True,
        check=True,
        timeout=100,
    )
    return next(folder.glob("*.whl"))


def names(wheel):
    import zipfile

    return zipfile.ZipFile(wheel).namelist()


def test_a_library_is_opened_once(tmp_path):
    assert load_library() is load_library()
    missing = str(tmp_path / "late.so")
    with pytest.raises(OSError, match="late"):
        opened(missing)
    Path(missing).write_bytes(shim_path().read_bytes())
    assert opened(missing) is opened(missing)
