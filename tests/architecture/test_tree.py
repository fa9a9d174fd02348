"""The tree keeps the shape that makes it readable; the import contracts are held by import-linter in ./dev check."""

import ast
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def tracked(pattern: str) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", pattern],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    return [ROOT / line for line in listed.splitlines() if (ROOT / line).exists()]


HAND_WRITTEN = [path for path in tracked("*.py") if "proto/gen" not in path.as_posix()]


def test_no_file_grows_beyond_five_hundred_lines():
    too_long = {
        str(path.relative_to(ROOT)): lines
        for path in HAND_WRITTEN
        if (lines := len(path.read_text().splitlines())) > 500
    }
    assert too_long == {}


@pytest.mark.parametrize(
    "path",
    [path for path in HAND_WRITTEN if path.name == "__init__.py"],
    ids=lambda path: str(path.parent.relative_to(ROOT)),
)
def test_an_init_only_reexports(path: Path):
    allowed = (ast.Import, ast.ImportFrom, ast.Expr, ast.Assign)
    body = ast.parse(path.read_text()).body
    assert body, "an __init__ says in one line what its package is for"
    assert isinstance(body[0], ast.Expr), "the first statement is the docstring"
    for node in body:
        assert isinstance(node, allowed), f"line {node.lineno} is more than a re-export"
        if isinstance(node, ast.Assign):
            assert [ast.unparse(target) for target in node.targets] == ["__all__"]


def test_the_top_level_folders_hold_one_package_each():
    for folder, package in [
        ("agent", "midwatch"),
        ("server", "midwatch_server"),
        ("client", "midwatch_client"),
        ("proto/gen", "midwatch_proto"),
        ("migrations", "midwatch_migrations"),
    ]:
        packages = [p.name for p in (ROOT / folder).iterdir() if p.is_dir() and (p / "__init__.py").exists()]
        assert packages == [package]
        assert not (ROOT / folder / "__init__.py").exists()


def test_every_benchmark_says_in_its_first_line_what_it_prints():
    for path in (ROOT / "tests" / "benchmarks").glob("*.py"):
        docstring = ast.get_docstring(ast.parse(path.read_text()))
        assert docstring, path.name
        assert path.read_text().startswith('"""'), path.name
