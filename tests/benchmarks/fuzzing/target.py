"""One file of any content: it is read and judged, or refused in one sentence; anything else is a failure."""

from __future__ import annotations

import contextlib
import hashlib
import io
import traceback
import warnings
from pathlib import Path

import midwatch
from midwatch.trace import TraceError, summarise
from midwatch.wire import to_message
from midwatch_server.diagnosis import Evidence, diagnose
from midwatch_server.diagnosis.failures import RULE_FAILED
from midwatch_server.figures import checked

ROOT = Path(midwatch.__file__).parents[2]


def judge(path: Path) -> str:
    """``read``, or ``refused``. Raises whatever else the reader raises, and warnings as errors."""
    printed = io.StringIO()
    with warnings.catch_warnings(), contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
        warnings.simplefilter("error")
        try:
            summary = summarise(path)
        except TraceError as error:
            said = str(error)
            if "\n" in said or not said.endswith(".") or not said[0].isalnum() or len(said) > 400:
                raise AssertionError(f"this is not one clear sentence: {said!r}") from error
            return "refused"
        diagnosis = diagnose(Evidence(summary=summary, workload=summary.workload))
        mended = checked(to_message(summary), "a summary")  # or the collector would refuse what this agent sends
    if mended.count:
        raise AssertionError(f"the collector would leave this out: {mended.first}")
    for caveat in diagnosis.caveats:
        if caveat.code == RULE_FAILED:
            raise AssertionError(caveat.text)
    if printed.getvalue():
        raise AssertionError(f"reading printed {printed.getvalue()[:200]!r}")
    return "read"


class Failures:
    """Keeps one file of each failure, told apart by where it was raised."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.seen: dict[str, int] = {}

    def add(self, content: bytes, error: BaseException) -> None:
        """Note a failure; the first of its kind is written down with its traceback."""
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename.startswith(str(ROOT))][-2:]
        where = " < ".join(f"{Path(f.filename).name}:{f.lineno}" for f in reversed(frames))
        key = f"{type(error).__name__} at {where}"
        self.seen[key] = self.seen.get(key, 0) + 1
        if self.seen[key] == 1:
            name = hashlib.sha1(key.encode(), usedforsecurity=False).hexdigest()[:12]
            self._folder.mkdir(parents=True, exist_ok=True)
            (self._folder / f"{name}.trace").write_bytes(content)
            (self._folder / f"{name}.txt").write_text("".join(traceback.format_exception(error)))
            print(f"FAILURE {key}: {error!s:.150} ({name}.trace)", flush=True)
