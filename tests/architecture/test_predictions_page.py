"""docs/predictions.md shows exactly what was measured, and explains each miss."""

import json
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "predictions.md").read_text()
PAIRS = json.loads((ROOT / "tests" / "data" / "pairs" / "measured.json").read_text())["pairs"]


def row(pair) -> str:
    figures = [pair[key] for key in ("faulty_ms", "apart_ms", "repaired_ms", "gained_ms", "predicted_ms")]
    windows = ", ".join(f"{window_ms:.2f}" for window_ms in pair["windows_ms"])
    cells = [f"`{pair['service']}`", pair["mends"], f"`{pair['kind']}`", *(f"{ms:.2f}" for ms in figures), windows]
    return f"| {' | '.join(cells)} | {'holds' if pair['holds'] else 'missed'} |"


def test_the_table_is_what_was_measured():
    rows = [line for line in PAGE.splitlines() if line.startswith("| `")]
    assert rows == [row(pair) for pair in PAIRS]


def test_the_page_counts_what_holds_and_explains_each_one_that_does_not():
    missed = [pair["service"] for pair in PAIRS if not pair["holds"]]
    assert f"{len(PAIRS) - len(missed)} of {len(PAIRS)} predictions hold" in PAGE
    assert sorted(re.findall(r"^\*\*`(\w+)`", PAGE, re.MULTILINE)) == sorted(missed)


def test_the_readme_and_the_report_lead_to_the_page():
    for name in ("README.md", "docs/report.md"):
        assert re.search(r"\((docs/)?predictions\.md\)", (ROOT / name).read_text()), name
