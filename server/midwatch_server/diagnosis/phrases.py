"""Sentences that several rules use as evidence."""

from __future__ import annotations

from collections.abc import Iterable

from midwatch_server.diagnosis.account import Account, Claim
from midwatch_server.diagnosis.evidence import Evidence
from midwatch_server.diagnosis.words import ms, percent, plural

HIDDEN = 0.9
"""Where the replay gives less than this share of what a cause takes, the evidence says so."""


def hidden(cost_ms: float, gain_ms: float) -> Iterable[str]:
    """Say that a part of the cost is not to be gained, where it is more than a tenth."""
    if gain_ms < HIDDEN * cost_ms:
        yield f"Replayed without, the request takes {ms(gain_ms)} less; for the rest the host would wait for the device"


def look_at(evidence: Evidence, starts_ms: tuple[float, ...]) -> str:
    """Say where in the window to look, as the end of a sentence; "" where no moment inside of it is known."""
    length_ms = evidence.summary.window.duration_ms if evidence.summary else 0.0
    inside = sorted([start for start in starts_ms if 0 <= start <= length_ms][:3])
    if not inside:
        return ""
    return "; look at " + ", ".join(f"{start:.3f}" for start in inside) + " ms of the window"


def occurrences(count: int, noun: str, affected: int) -> str:
    """Say how often something occurs, and that several requests share one occurrence where these are more."""
    shared = f" shared by {affected} requests" if affected > count else ""
    return plural(count, noun) + shared


def thread_of(claim: Claim) -> str:
    """Name the thread where it is not the request's own: ``, on thread batcher,``; else ""."""
    return f", on thread {claim.thread_name}," if claim.role == "unit" and claim.thread_name else ""


def seen_in(claim: Claim) -> str:
    """Say how many samples of which thread stand behind ``claim``."""
    whose = {"request": "the request's own thread", "unit": "the thread that runs the model"}.get(
        claim.role, "a thread"
    )
    name = f" ({claim.thread_name})" if claim.thread_name else ""
    return f"{plural(len(claim.samples), 'stack sample')} of {whose}{name} found it here"


def explains(account: Account, claim: Claim) -> str:
    """Say how much of the overrun ``claim`` explains."""
    seen_ms = claim.ms / claim.share if claim.share else 0.0
    if claim.samples and seen_ms < 0.99 * account.overrun_ms:
        return (
            f"Explains {percent(claim.share)} of the {ms(seen_ms)} that were watched; "
            f"the request overran by {ms(account.overrun_ms)}"
        )
    if not account.usual_ms:
        return (
            f"Explains {percent(claim.share)} of the request's {ms(account.duration_ms)}; "
            "its usual latency is not known yet"
        )
    return (
        f"Explains {percent(claim.share)} of the {ms(account.overrun_ms)} by which the request overran its usual "
        f"{ms(account.usual_ms)}"
    )
