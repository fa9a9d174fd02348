"""The timeline, and the requests, as inline SVG: shapes that carry their figures as titles, coloured by classes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence

from midwatch.model.trace import Lane, RequestFacts, Timeline, TraceSummary
from midwatch_server.diagnosis.words import ms, percent, place

from midwatch_client.render.markup import Markup, el, join
from midwatch_client.render.timeline import drawable

LABEL = 130.0
WIDTH = 960.0
LANE = 30.0
GAP = 8.0
AXIS = 22.0
MARKS = 16.0
TICKS = 5
BARS = 120.0
WIDEST = 48.0
MOST_MARKS = 24
STOOD_STILL = {
    "python": "Python",
    "blocked": "a blocking call",
    "lock": "a lock",
    "gc": "garbage collection",
    "ops": "operators on the CPU",
    "alloc": "the allocator",
    "compile": "compilation",
    "dispatch": "dispatch",
    "unknown": "no record of the host",
}


def timeline_svg(summary: TraceSummary, name: str) -> Markup | None:
    """Draw the lanes of the slowest request (or the window), None where there is nothing to draw.

    Args:
        summary: The facts; moments of waits that fall into the picture are marked.
        name: Unique in the page; the ids of title and description are made from it.
    """
    drawn = summary.timeline
    lanes = drawable(drawn)
    if not lanes:
        return None
    marks = list(_marks(summary))
    top = MARKS if marks else 0.0
    bottom = top + len(lanes) * (LANE + GAP)
    height = bottom + AXIS
    return el(
        "svg",
        el("title", f"Timeline over {ms(drawn.duration_ms)}", id=f"{name}-title"),
        el("desc", _described(lanes), id=f"{name}-desc"),
        *marks,
        *itertools.chain.from_iterable(
            _lane(lane, top + number * (LANE + GAP), drawn) for number, lane in enumerate(lanes)
        ),
        *_axis(drawn.duration_ms, top, bottom),
        role="img",
        aria_labelledby=f"{name}-title {name}-desc",
        viewBox=f"0 0 {LABEL + WIDTH + 40:.0f} {height:.0f}",
        width=LABEL + WIDTH + 40,
        height=height,
    )


def _described(lanes: Sequence[Lane]) -> str:
    """Return what the picture shows, for those who do not see it."""
    shares = [f"{lane.name} {percent(sum(lane.cells) / len(lane.cells) / 100)}" for lane in lanes]
    return f"How busy each lane is over the whole stretch: {', '.join(shares)}."


def _lane(lane: Lane, top: float, drawn: Timeline) -> Iterator[Markup]:
    yield el("text", lane.name, x=LABEL - 10, y=top + LANE * 0.7, class_="label", text_anchor="end")
    yield el("rect", x=LABEL, y=top, width=WIDTH, height=LANE, class_="lane")
    cell = WIDTH / len(lane.cells)
    per_cell = drawn.duration_ms / len(lane.cells)
    at = 0
    for share, same in itertools.groupby(lane.cells):
        length = len(list(same))
        if share > 0:
            tall = max(LANE * share / 100, 1.5)
            when = f"{ms(at * per_cell)} to {ms((at + length) * per_cell)}: {lane.name} {percent(share / 100)} busy"
            yield el(
                "rect",
                el("title", when),
                x=LABEL + at * cell,
                y=top + LANE - tall,
                width=length * cell,
                height=tall,
                class_=lane.kind,
            )
        at += length


def _marks(summary: TraceSummary) -> Iterator[Markup]:
    """Mark where the longest waits that are no hand-over begin, and the longest stretches without work."""
    drawn = summary.timeline
    waits = [(w.max_ms, w.starts_ms, w.api, w.site) for w in summary.waits if w.count > w.handover]
    gaps = [(g.max_ms, g.starts_ms, STOOD_STILL.get(g.host, g.host), g.site) for g in summary.gaps]
    marks = 0
    for longest, starts, what, site in sorted((*waits, *gaps), key=lambda row: -row[0]):
        where = f" in {place(site)}" if site is not None else ""
        for start in starts:
            at = (start - drawn.start_ms) / drawn.duration_ms
            if 0 <= at < 1 and marks < MOST_MARKS:
                marks += 1
                said = f"{ms(start - drawn.start_ms)}: {what}{where}, up to {ms(longest)}"
                x = LABEL + at * WIDTH
                yield el("path", el("title", said), d=f"M{x - 5:.1f} 2h10l-5 9z", class_="mark")


def _axis(duration_ms: float, top: float, bottom: float) -> Iterator[Markup]:
    for tick in range(TICKS + 1):
        x = LABEL + WIDTH * tick / TICKS
        yield el("line", x1=x, x2=x, y1=top, y2=bottom, class_="tick")
        yield el("text", ms(duration_ms * tick / TICKS), x=x, y=bottom + 14, class_="label", text_anchor="middle")


def requests_svg(requests: Sequence[RequestFacts], noun: str, name: str) -> Markup | None:
    """Draw one bar a request, None for fewer than two."""
    requests = [facts for facts in requests if 0 <= facts.wall_ms < math.inf]
    if len(requests) < 2:
        return None
    tallest = max(facts.wall_ms for facts in requests) or 1.0
    step = min(WIDTH / len(requests), WIDEST)
    bars = [_bar(facts, number, step, tallest, noun) for number, facts in enumerate(requests)]
    said = f"From {ms(min(facts.wall_ms for facts in requests))} to {ms(tallest)}, traced."
    return el(
        "svg",
        el("title", f"{len(requests)} {noun}s in the order of time", id=f"{name}-title"),
        el("desc", said, id=f"{name}-desc"),
        el("text", ms(tallest), x=LABEL - 10, y=12, class_="label", text_anchor="end"),
        el("text", "0", x=LABEL - 10, y=BARS, class_="label", text_anchor="end"),
        *bars,
        role="img",
        aria_labelledby=f"{name}-title {name}-desc",
        viewBox=f"0 0 {LABEL + WIDTH + 40:.0f} {BARS + 4:.0f}",
        width=LABEL + WIDTH + 40,
        height=BARS + 4,
    )


def _bar(facts: RequestFacts, number: int, step: float, tallest: float, noun: str) -> Markup:
    """A bar with the time that its host waited for the device at its foot."""
    x, width = LABEL + number * step + step * 0.1, step * 0.8
    tall = BARS * facts.wall_ms / tallest
    waited = min(BARS * facts.wait_ms / tallest, tall)
    told = (
        f"{noun} at {ms(facts.start_ms)}: {ms(facts.wall_ms)}, waiting for the device {ms(facts.wait_ms)}, "
        f"device busy {ms(facts.device_busy_ms)}, {facts.launches} launches"
    )
    shapes = [el("rect", x=x, y=BARS - tall, width=width, height=max(tall, 1.0), class_="request")]
    if waited > 0:
        shapes.append(el("rect", x=x, y=BARS - waited, width=width, height=waited, class_="wait"))
    return el("g", el("title", told), join(*shapes))
