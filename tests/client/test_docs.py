"""The page on the command line names every command and every option of it."""

from pathlib import Path

import pytest
import typer
from midwatch_client.cli import build

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "commands.md").read_text()
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
