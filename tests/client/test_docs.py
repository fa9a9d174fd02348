"""The page on the command line names every command and every option of it; the example shows what is printed."""

from pathlib import Path

import pytest
import typer
from midwatch_client.cli import build
from typer.testing import CliRunner

ROOT_FOLDER = Path(__file__).resolve().parents[2]
PAGE = (ROOT_FOLDER / "docs" / "commands.md").read_text()
ROOT = typer.main.get_command(build())
COMMANDS = {
    **{name: command for name, command in ROOT.commands.items() if name != "db"},
    "db upgrade": ROOT.commands["db"].commands["upgrade"],
}
ELSEWHERE = {"--help", "--version", "--json", "--collector"}


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_documented_with_its_options(name: str):
    assert f"**`midwatch {name}" in PAGE
    options = {option for parameter in COMMANDS[name].params for option in parameter.opts if option.startswith("--")}
    if name != "analyze":
        missing = sorted(option for option in options - ELSEWHERE if option not in PAGE)
        assert missing == []


def test_every_documented_command_is_there():
    named = {line.split("`midwatch ")[1].split("`")[0] for line in PAGE.splitlines() if line.startswith("**`midwatch ")}
    words = {" ".join(word for word in one.split() if word.islower() and not word.startswith("-")) for one in named}
    assert words == set(COMMANDS)


def test_what_holds_for_all_commands():
    for word in (*ELSEWHERE - {"--version"}, "MIDWATCH_COLLECTOR", "MIDWATCH_TOKEN", "130"):
        assert word in PAGE


EXAMPLE = (ROOT_FOLDER / "docs" / "example.md").read_text()
SHOWN = [block.partition("\n")[::2] for block in EXAMPLE.split("```")[1::2] if block.startswith("\n$ midwatch ")]


def test_the_example_shows_what_the_commands_print(monkeypatch):
    monkeypatch.chdir(ROOT_FOLDER)
    blocks = [body.partition("\n") for _, body in SHOWN]
    assert [head.split()[2] for head, _, _ in blocks] == ["analyze", "analyze", "diff"]
    for head, _, body in blocks:
        result = CliRunner().invoke(build(), head.split()[2:], env={"COLUMNS": "110"})
        assert result.exit_code == 0, result.output
        printed = [line.rstrip() for line in result.stdout.splitlines() if line.strip()]
        shown = [line for line in body.splitlines() if line.strip()]
        assert printed[: len(shown)] == shown, head
