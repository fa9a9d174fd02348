"""A rule that fails must cost no more than what it would have found."""

from __future__ import annotations

import traceback
from pathlib import Path

from midwatch.model.trace import Caveat

RULE_FAILED = "rule_failed"
"""The code of the caveat that says so."""


def in_words(error: Exception) -> str:
    """Say in a few words what was raised, and where: ``ZeroDivisionError in hot_sync.py:33``. Never with values."""
    stack = traceback.extract_tb(error.__traceback__)
    at = f" in {Path(stack[-1].filename).name}:{stack[-1].lineno}" if stack else ""
    return f"{type(error).__name__}{at}"


def caveat(rules: list[tuple[str, str]]) -> Caveat:
    """Return the caveat that names the rules that failed, each by its kind, with what it raised."""
    named = ", ".join(f"{kind} ({what})" for kind, what in rules)
    what = "a rule" if len(rules) == 1 else f"{len(rules)} rules"
    return Caveat(RULE_FAILED, f"Not all of it could be diagnosed: {what} failed on it, {named}", len(rules))
