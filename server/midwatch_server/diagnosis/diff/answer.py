"""The answer in plain language: what changed, by how much, and why, in the order in which a person asks."""

from __future__ import annotations

from collections.abc import Iterator

from midwatch_server.diagnosis.diff.values import Change, Diff, Figure, Part, Sample, Share
from midwatch_server.diagnosis.words import between, ms, percent

REST = 0.25
"""Of the difference: where more of it is accounted for by nothing, that is said."""
REMARKABLE = 3.0
"""A slowest request so many times the median is spoken of, where the other side has none such."""
NOTABLE = 0.02
"""Of the request: what changed by less is not spoken of where the request did not."""
ALL = 1.05
SPOKEN = 3


def answer(diff: Diff) -> tuple[str, ...]:
    """Return the sentences; the first one answers."""
    return tuple(_sentences(diff))


def _sentences(diff: Diff) -> Iterator[str]:
    if diff.comparability.verdict == "not_comparable":
        grave = diff.comparability.remarks[0].text
        yield f"Not like for like, so neither is faster: {grave}."
        yield _both(diff)
    elif diff.wall.status in ("more", "less"):
        yield _headline(diff)
        yield from _rest(diff)
    else:
        doubt = next((remark.text for remark in diff.comparability.remarks if remark.code == "correction"), "")
        if doubt:
            yield f"No difference that is sure: {doubt}."
        else:
            yield f"No difference beyond the spread of the {diff.noun}s: {_lower(_both(diff))}"
        yield from _elsewhere(diff)
    yield from _slowest(diff)
    if len(diff.changed) > 1:
        things = "; ".join(remark.text for remark in diff.changed)
        yield f"More than one thing changed: {things}. Which of them did it cannot be told: change one at a time."


def _both(diff: Diff) -> str:
    a, b = diff.wall.a, diff.wall.b
    if a is None or b is None:
        return f"How long a {diff.noun} takes is not known on both sides."
    one = diff.noun if diff.noun == "window" else f"median {diff.noun}"
    return f"The {one} takes {_range(a)} in A and {_range(b)} in B."


def _lower(sentence: str) -> str:
    return sentence[0].lower() + sentence[1:]


def _range(sample: Sample) -> str:
    median, mostly = ms(sample.median), between(sample.low, sample.high)
    return f"{median} (mostly {mostly})" if sample.count > 1 and mostly != median else median


def _headline(diff: Diff) -> str:
    a, b = diff.wall.a, diff.wall.b
    before, after = (a.median if a else 0.0), (b.median if b else 0.0)
    delta = abs(after - before)
    if after > 2 * before > 0:
        said = f"A {diff.noun} takes {after / before:.1f} times as long in B, {ms(after)} instead of {ms(before)}"
    else:
        faster = "faster" if after < before else "slower"
        share = f" ({percent(delta / before)})" if before else ""
        said = f"B is {ms(delta)}{share} {faster} per {diff.noun}, {ms(after)} instead of {ms(before)}"
    spoken = [_share(share, diff) for share in diff.shares if share.ms * diff.wall.delta > 0][:SPOKEN]
    return f"{said}; {'; '.join(spoken)}." if spoken else f"{said}."


def _share(share: Share, diff: Diff) -> str:
    change, amount, whole = share.change, abs(share.ms), abs(diff.wall.delta)
    if amount > ALL * whole:
        less = "less" if share.ms < 0 else "more"
        return f"{change.label} alone cost {ms(amount)} {less} ({_fate(change)})"
    of_it = "all of it" if amount * ALL >= whole else f"{ms(amount)} of it"
    return f"{of_it} is {change.label}, {_fate(change)}"


def _fate(change: Change) -> str:
    before, after = change.a, change.b
    if before is None or after is None:
        return "now gone" if after is None else "new in B"
    if before.detail and after.detail and before.detail != after.detail:
        return f"{ms(before.ms)} {_as(before.detail)} before, {ms(after.ms)} {_as(after.detail)} now"
    return f"{_each(before)} before, {_each(after)} now"


def _as(detail: str) -> str:
    return detail if detail.startswith(("on ", "without ")) else f"in {detail}"


def _each(part: Part) -> str:
    rare = f" in {percent(part.share)} of them" if part.share < 0.5 else ""
    return ms(part.ms) + rare


def _rest(diff: Diff) -> Iterator[str]:
    against = [share for share in diff.shares if share.ms * diff.wall.delta < 0]
    for share in against[:SPOKEN]:
        yield f"Against that, {share.change.label} cost {ms(abs(share.ms))} {_more(share.ms)} ({_fate(share.change)})."
    if abs(diff.rest_ms) < REST * abs(diff.wall.delta):
        return
    if not diff.shares:
        yield "Why does not show in what was recorded: no single wait, gap or kernel accounts for it."
    elif diff.rest_ms * diff.wall.delta < 0:
        went = "lost" if diff.rest_ms > 0 else "gained"
        yield f"Against that, {ms(abs(diff.rest_ms))} are {went} elsewhere{_hint(diff)}."
    else:
        yield f"The other {ms(abs(diff.rest_ms))} are not accounted for by anything that was recorded{_hint(diff)}."


def _more(delta: float) -> str:
    return "more" if delta > 0 else "less"


def _hint(diff: Diff) -> str:
    """Say how much longer or shorter host or device are at it, where that points the way of what is left."""
    for key, said in (("host_busy_ms", "the host is busy"), ("device_idle_ms", "the device idles")):
        figure = next((figure for figure in diff.figures if figure.key == key), None)
        if figure is not None and figure.status in ("more", "less") and figure.delta * diff.rest_ms > 0:
            return f": {said} {ms(abs(figure.delta))} {'longer' if figure.delta > 0 else 'shorter'}"
    return ""


def _elsewhere(diff: Diff) -> Iterator[str]:
    """Name what changed without any effect on the median request."""
    floor = NOTABLE * _median(diff.wall)
    moved = [
        change
        for change in diff.changes
        if change.status != "same" and abs(change.delta_ms) > floor and change.kind != "launch"
    ]
    if moved:
        moved.sort(key=lambda change: -abs(change.delta_ms))
        told = "; ".join(f"{change.label}, {_fate_in_short(change)}" for change in moved[:SPOKEN])
        yield f"What changed all the same, without making the median {diff.noun} faster or slower: {told}."


def _fate_in_short(change: Change) -> str:
    part = change.a if change.b is None else change.b if change.a is None else None
    return _fate(change) if part is None else f"{'gone' if change.b is None else 'new'} ({_each(part)})"


def _median(figure: Figure) -> float:
    return max(figure.a.median if figure.a else 0.0, figure.b.median if figure.b else 0.0)


def _slowest(diff: Diff) -> Iterator[str]:
    pairs = [(diff.slowest.a, diff.wall.a), (diff.slowest.b, diff.wall.b)]
    times = [(worst.median, usual.median) for worst, usual in pairs if worst and usual and usual.count > 1]
    if len(times) < 2:
        return
    out = [worst > REMARKABLE * usual for worst, usual in times]
    if out[0] != out[1]:
        side = "A" if out[0] else "B"
        yield (
            f"{side} has a {diff.noun} that stands out: its slowest takes {ms(times[0 if out[0] else 1][0])}, "
            f"that of the other {ms(times[1 if out[0] else 0][0])}."
        )
