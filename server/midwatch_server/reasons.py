"""What was refused or changed, and why, in the log: once a minute for each sender and reason."""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable

log = logging.getLogger("midwatch.collector")

LOG_EVERY_S = 60.0
MOST_KEPT = 256
"""Of senders and reasons within a minute; beyond that they are one, so that nobody fills the log by new names."""
_FIGURES = re.compile(r"[\d.+-]+")


class Reasons:
    """Logs a reason when it is first met, then at most once a minute. Used by one thread."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._kept: dict[tuple[str, str], tuple[float, int]] = {}
        """By sender and reason: when it was logged, and how many went unsaid since."""

    def note(self, who: str, reason: str, count: int = 1) -> None:
        """Log the sentence ``reason`` that ``count`` things of ``who`` met with, or count them for the next line.

        Reasons that differ in a figure alone are one.
        """
        now_s = self._now_s()
        key = (who, _FIGURES.sub("#", reason))
        if key not in self._kept and len(self._kept) >= MOST_KEPT:
            self._kept = {one: kept for one, kept in self._kept.items() if kept[1] or now_s - kept[0] < LOG_EVERY_S}
            key = key if len(self._kept) < MOST_KEPT else ("", "")
        logged_s, unsaid = self._kept.get(key, (float("-inf"), 0))
        if now_s - logged_s < LOG_EVERY_S:
            self._kept[key] = logged_s, unsaid + count
            return
        more = f" ({unsaid} more since the last such line)" if unsaid else ""
        log.warning("%s: %s%s", who, reason, more)
        self._kept[key] = now_s, 0
