"""docs/settings.md says exactly what the program knows."""

import re
from dataclasses import fields
from pathlib import Path

from midwatch.config import Settings

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "settings.md").read_text()


def plain(default: object) -> str:
    if isinstance(default, bool):
        return "1" if default else "0"
    if isinstance(default, float):
        return f"{default:g}"
    return ", ".join(default) if isinstance(default, tuple) else str(default)


def row(f) -> str:
    shown = plain(f.default) or "none"
    choices = (
        f" One of {', '.join(f'`{choice}`' for choice in f.metadata['choices'])}." if f.metadata["choices"] else ""
    )
    return f"| `MIDWATCH_{f.name.upper()}` | {shown} | {f.metadata['help']}{choices} |"


def test_every_setting_has_its_row_and_no_row_is_left_over():
    assert [line for line in PAGE.splitlines() if line.startswith("| `MIDWATCH_")] == [row(f) for f in fields(Settings)]


def test_the_page_names_no_variable_that_does_not_exist():
    known = {f"MIDWATCH_{f.name.upper()}" for f in fields(Settings)} | {
        "MIDWATCH_CONFIG",
        "MIDWATCH_DB",
        "MIDWATCH_GRPC",
    }
    assert set(re.findall(r"MIDWATCH_[A-Z_]+", PAGE)) <= known
