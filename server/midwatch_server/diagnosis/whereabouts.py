"""Where the time of a request without a device went, in words that claim no more than the samples bear."""

from __future__ import annotations

import math
from collections.abc import Sequence

from midwatch.model.site import Site
from midwatch.model.trace import TimeFacts, TraceSummary

from midwatch_server.diagnosis.words import call, ms, percent, place, plural

NOT_KNOWN = frozenset({"held", "unknown"})
OPEN = frozenset({"queued", "outside"})
"""Waiting whose reason lies elsewhere: with other requests, or outside of this process. So does that of an idle thread
which is not the one that runs the model."""
LEAST = 0.05
NOTABLE = 0.2
"""Waiting of this share of a request is worth a word of its own."""
MOST_PARTS = 4
STEP = 0.05
"""Estimated shares are rounded to this."""


def known_share(summary: TraceSummary) -> float:
    """Return of how much of the usual requests' time it is known what it went into, 0 to 1."""
    return sum(facts.share for facts in summary.time if facts.what not in NOT_KNOWN and not _is_open(facts))


def open_share(summary: TraceSummary) -> float:
    """Return for how much of their time the usual requests wait for what this trace cannot explain, 0 to 1."""
    return sum(facts.share for facts in summary.time if _is_open(facts))


def longest_wait(summary: TraceSummary) -> str:
    """Say for what requests wait the most, and what to do about it, as a sentence; "" where that is a small part."""
    parts: dict[tuple[str, str], list[TimeFacts]] = {}
    for facts in filter(_is_open, summary.time):
        parts.setdefault((facts.what, facts.thread), []).append(facts)
    some = max(parts.values(), key=_total, default=[])
    if _total(some) < NOTABLE:
        return ""
    what, wait = some[0].what, ms(sum(facts.per_request_ms for facts in some))
    longest = max(some, key=lambda facts: facts.share)
    most = "" if longest.share == _total(some) else ", most of it"
    at = f"{most} in {place(longest.site)}{',' if most else ''}" if longest.site else ""
    return " " + {
        "queued": f"It waits {wait} for its turn, while thread {some[0].thread} works for other requests: larger "
        "batches or another worker would shorten that.",
        "outside": f"It waits about {wait}{at} for something outside of this process: look there for the cause, "
        "or time the call.",
    }.get(
        what,
        f"It waits about {wait}{at} for something that these samples do not show: time the HTTP, database and other "
        "calls that it awaits.",
    )


def _is_open(facts: TimeFacts) -> bool:
    return facts.what in OPEN or (facts.what == "idle" and not facts.thread)


def whereabouts(summary: TraceSummary, *, without: str = "unknown") -> str:
    """Say where the time went, the most first: ``31 % operators; about 10 % …``; "" where nothing is known.

    Parts below a twentieth are left out, as is what is ``without`` a word here.
    """
    parts: dict[tuple[str, str, Site | None], list[TimeFacts]] = {}
    for facts in summary.time:
        if facts.what not in (without, "unknown"):
            site = None if facts.what == "glue" else facts.site
            parts.setdefault((facts.what, facts.thread, site), []).append(facts)
    told = sorted((_total(some), _share(some), _named(some[0])) for some in parts.values())
    return "; ".join(f"{share} {name}" for total, share, name in reversed(told[-MOST_PARTS:]) if total >= LEAST)


def precision(summary: TraceSummary) -> str:
    """Say on how many samples the estimated shares rest, as a sentence of its own; "" where none is estimated."""
    told = [facts for facts in summary.time if facts.samples and facts.what != "unknown"]
    looks = sum(facts.samples for facts in told)
    if not looks:
        return ""
    estimated = sum(facts.share for facts in told)
    error = estimated * 0.5 / math.sqrt(looks)
    return f" Estimated from {plural(looks, 'stack sample')}: give or take {percent(error)} of the whole."


def _total(some: Sequence[TimeFacts]) -> float:
    return sum(facts.share for facts in some)


def _share(some: Sequence[TimeFacts]) -> str:
    share = _total(some)
    if not any(facts.samples for facts in some):
        return percent(share)
    return f"about {percent(max(round(share / STEP) * STEP, STEP))}"


def _named(facts: TimeFacts) -> str:
    at = f" in {place(facts.site)}" if facts.site else ""
    calling = f"{call(facts.site.callee)}{at}" if facts.site and facts.site.callee else at.strip()
    within = f" ({calling})" if calling else ""
    return {
        "ops": "operators",
        "gc": f"garbage collections{at}",
        "lock": f"waiting for a lock{at}",
        "compile": "compilation",
        "queued": f"thread {facts.thread} working for other requests",
        "blocked": calling or "blocking calls",
        "python": f"Python{at}" if at else "the event loop and other Python",
        "glue": f"Python between operators, PyTorch's own included{f', most of it{at}' if at else ''}",
        "idle": f"thread {facts.thread} waiting for work{within}"
        if facts.thread
        else f"waiting for an event or another thread{within}",
        "outside": f"waiting for something outside of this process{within}",
        "held": "the interpreter held, by this or another thread",
    }.get(facts.what, facts.what)
