"""Stretches of time as sorted pairs of nanoseconds, so that no time is claimed twice."""

from __future__ import annotations

from collections.abc import Iterable

Span = tuple[int, int]


def merge(spans: Iterable[Span]) -> list[Span]:
    """Return the union of ``spans``: sorted, without overlap, empty ones left out."""
    merged: list[Span] = []
    for start, end in sorted(span for span in spans if span[1] > span[0]):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((start, end))
    return merged


def clip(spans: Iterable[Span], start: int, end: int) -> list[Span]:
    """Return the part of ``spans`` that lies between ``start`` and ``end``."""
    return merge((max(a, start), min(b, end)) for a, b in spans)


def subtract(spans: Iterable[Span], taken: Iterable[Span]) -> list[Span]:
    """Return what is left of ``spans`` without ``taken``."""
    left: list[Span] = []
    holes = merge(taken)
    for start, end in merge(spans):
        at = start
        for hole_start, hole_end in holes:
            if hole_end <= at:
                continue
            if hole_start >= end:
                break
            if hole_start > at:
                left.append((at, hole_start))
            at = max(at, hole_end)
        if at < end:
            left.append((at, end))
    return left


def total_ms(spans: Iterable[Span]) -> float:
    """Return the length of the union of ``spans`` in milliseconds."""
    return sum(end - start for start, end in merge(spans)) / 1e6
