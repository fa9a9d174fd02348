"""What became of the windows since the last good one, and what keeps them from opening: one line of the status."""

from __future__ import annotations

from collections.abc import Iterable

from midwatch.model.status import Part

_MOST_CHARACTERS = 240


class WindowAccount:
    """Counts windows by what became of them. Written by the profiler thread, asked by any."""

    def __init__(self) -> None:
        self.counts = {"done": 0, "refused": 0, "failed": 0, "empty": 0}
        """Captures by state. A window that was done and whose trace then could not be read counts as failed as well."""
        self._amiss: dict[str, tuple[int, str]] = {}
        """Since the last window that was done: by state how many, and the reason of the last one."""
        self._failed_last = False

    def note(self, state: str, detail: str) -> None:
        """Count a window that ended in ``state``; ``detail`` is the reason, one sentence."""
        self.counts[state] = self.counts.get(state, 0) + 1
        if state == "done":
            self._amiss = {}
        else:
            reason = " ".join(detail.split())[:_MOST_CHARACTERS]
            # A new one each time: whoever asks meanwhile goes through the old one.
            self._amiss = {**self._amiss, state: (self._amiss.get(state, (0, ""))[0] + 1, reason)}
        if state != "refused":
            self._failed_last = state == "failed"

    def part(self, obstacle: Part | None, remarks: Iterable[str]) -> Part:
        """Return the line of the status.

        Args:
            obstacle: why no window opens now, None where one could.
            remarks: sentences to say anyway; empty ones are left out.
        """
        if obstacle is not None:
            state, first = obstacle.state, obstacle.detail
        else:
            state, first = "failed" if self._failed_last else "on", ""
        return Part("windows", state, "; ".join(filter(None, [first, *remarks, *self._outcomes()])))

    def _outcomes(self) -> Iterable[str]:
        amiss = self._amiss
        for state, words in (("failed", "failed"), ("empty", "gave no records"), ("refused", "refused")):
            if state in amiss:
                count, reason = amiss[state]
                yield f"{count} {words}, the last one since {reason}"


def why_no_engine(parts: Iterable[Part]) -> str:
    """Return why none of the engines works, in one line; ``parts`` are theirs."""
    reasons = {part.detail: part.name for part in parts if part.detail}
    if len(reasons) == 1:
        return next(iter(reasons))
    return "; ".join(f"{name}: {detail}" for detail, name in reasons.items()) or "no engine works here"
