"""What a replay says of a route, in words: what was flagged, and what it is worth that nothing was."""

from __future__ import annotations

from midwatch.detect.deadline import OWN
from midwatch.detect.detector import Event
from midwatch_server.diagnosis.words import plural

from midwatch_client.columns import Column
from midwatch_client.replaying import Noticed, Outcome, RouteOutcome

RULES = {
    "sketch": "the route's own deadline: three times what is usual for inputs of the shape, more where healthy "
    "requests take longer once in an hour's worth of them, and at least 10 ms more than usual",
    "slo": f"--slo-ms, until {OWN} requests were learnt from",
    "low_traffic": f"ten medians and at least 250 ms, until {OWN} requests were learnt from",
    "new_shape": "three times the usual, for the first request of a shape where three of a thousand were such",
}
"""By name, what a deadline is."""
UNTIMED = "How many would have been told is not known: that takes a column of times."
_EVENTS = {
    Event.SHIFT: "a new level; the median has doubled within some hundred requests, and stays there.",
    Event.TAIL: "a rising tail; the slower half of the requests becomes slower, and the median stays.",
}
_UNITS = {"s": "seconds", "ms": "milliseconds", "us": "microseconds", "ns": "nanoseconds"}


def conclusive(one: RouteOutcome) -> bool:
    """Whether the answer is one: something was flagged, or a deadline that fits the route was kept."""
    return one.spikes > 0 or one.replay.judged_by["sketch"] + one.replay.judged_by["slo"] > 0


def verdict(one: RouteOutcome, *, timed: bool) -> str:
    """Return what was flagged; where nothing was, whether that says something."""
    if one.spikes:
        return f"{_share(one)} {_told(one) if timed else UNTIMED}"
    if not one.judged:
        return (
            f"Nothing was flagged, and that says nothing: {_all(one.warmup)} part of the warm-up, "
            "in which the detector is silent."
        )
    if not conclusive(one):
        return (
            f"Nothing was flagged, but that is not conclusive: a route has a deadline of its own from {OWN} learnt "
            f"requests on, and here are {one.usual.requests}. Until then only what takes ten medians and at least "
            "250 ms is flagged; a longer recording, or --slo-ms, would tell more."
        )
    loose = one.replay.judged_by["low_traffic"]
    early = f" Of the first {loose:,} only one of ten medians and at least 250 ms would have been." if loose else ""
    return f"Nothing was flagged: none of {plural(one.judged, 'request')} after the warm-up was too long.{early}"


def event(noticed: Noticed) -> str:
    """Return what became known of many requests, and where."""
    when = f", {noticed.row.time}" if noticed.row.time else ""
    return f"Line {noticed.row.line:,} (request {noticed.request:,}{when}): {_EVENTS[noticed.event]}"


def about(outcome: Outcome) -> str:
    """Return what was read: how many requests, and from which columns."""
    columns = outcome.columns
    unit = _UNITS[columns.latency.unit]
    latency = f"latencies in {unit}" + (f" from column {columns.latency.name}" if columns.latency.name else "")
    rest = [
        f"{what} from column {column.name}"
        for what, column in (
            ("when they ended", columns.ended),
            ("when they began", columns.started),
            ("routes", columns.route),
            ("shapes", columns.shape),
        )
        if isinstance(column, Column)
    ]
    many = plural(len(outcome.routes), "route")
    return f"{outcome.name}: {plural(outcome.requests, 'request')} on {many}; {', '.join([latency, *rest])}"


def late(outcome: Outcome) -> str:
    """Return what to know of rows out of order, "" where there are none."""
    if not outcome.late:
        return ""
    they = f"{plural(outcome.late, 'row')} {'tells' if outcome.late == 1 else 'tell'}"
    return (
        f"{they} an earlier end than one above; the order of the rows was kept. Sort them by the end for the service's."
    )


def _all(requests: int) -> str:
    return "the only request is" if requests == 1 else f"all {requests:,} requests are"


def _share(one: RouteOutcome) -> str:
    were = "was" if one.spikes == 1 else "were"
    return f"{one.spikes:,} of {plural(one.judged, 'request')} after the warm-up {were} flagged."


def _told(one: RouteOutcome) -> str:
    if one.replay.told == one.spikes:
        return "It would have been told." if one.spikes == 1 else "All would have been told."
    return f"{one.replay.told:,} would have been told: three at once are, then one every 10 s; the others are counted."
