"""How figures and places are put into words, the same way in every rule."""

from __future__ import annotations

import math

from midwatch.model.site import Site

UNTOLD = "an unknown number of"
HUGE = 1e12
"""From here on a figure is written with its power of ten: nothing that was measured is as large."""


def ms(value: float) -> str:
    """Write milliseconds with two or three figures: ``412 ms``, ``4.9 ms``, ``0.21 ms``, ``7 us``."""
    if not math.isfinite(value):
        return "an unknown time"
    if value >= 100:
        return f"{_whole(value)} ms"
    if value >= 1:
        return f"{value:.1f} ms"
    if value >= 0.01:
        return f"{value:.2f} ms"
    return f"{value * 1000:.1f} us" if value >= 0.00005 else "0 ms"


def between(low_ms: float, high_ms: float) -> str:
    """Write a range of milliseconds, its unit once: ``2.9 to 3.2 ms``; ``273 ms`` where both are written alike."""
    low, high = ms(low_ms), ms(high_ms)
    if low == high:
        return low
    figure, _, unit = low.rpartition(" ")
    return f"{figure if unit == high.rpartition(' ')[2] else low} to {high}"


def percent(share: float) -> str:
    """Write a share of 0 to 1 as a percentage: ``38 %``, ``0.4 %``."""
    scaled = share * 100
    if not math.isfinite(scaled):
        return "an unknown share"
    return f"{scaled:.1f} %" if 0 < scaled < 1 else f"{scaled:.0f} %" if abs(scaled) < HUGE else f"{scaled:.1e} %"


def _whole(value: float) -> str:
    return f"{value:,.0f}" if value < HUGE else f"{value:.1e}"


def count(value: float) -> str:
    """Write a number of things: whole where it is whole, otherwise with one decimal."""
    if not math.isfinite(value):
        return UNTOLD
    if abs(value) >= HUGE:
        return f"{value:.1e}"
    nearest = round(value)
    return f"{nearest:,}" if abs(value - nearest) < 0.05 or value >= 100 else f"{value:.1f}"


def plural(value: float, noun: str) -> str:
    """Write a number with its noun: ``1 wait``, ``6 waits``, ``2 copies``."""
    if count(value) == "1":
        return f"1 {noun}"
    if noun.endswith("y"):
        return f"{count(value)} {noun[:-1]}ies"
    return f"{count(value)} {noun}{'es' if noun.endswith(('ch', 'sh', 's', 'x')) else 's'}"


def size(octets: float) -> str:
    """Write a number of bytes: ``12 B``, ``3.2 MB``."""
    if not math.isfinite(octets):
        return "an unknown size"
    if octets < 999.5:
        return f"{octets:.0f} B"
    for unit in ("kB", "MB"):
        octets /= 1000
        if octets < 999.95:  # what is rounded up to a thousand is one of the next unit
            return f"{octets:.1f} {unit}"
    return f"{octets / 1000:.1f} GB" if octets < HUGE else f"{octets / 1000:.1e} GB"


def place(site: Site) -> str:
    """Write a place, with a line only where the line itself was seen.

    ``record_confidence (metrics.py:41)`` or ``record_confidence (metrics.py)``.
    """
    if not site.file:
        return site.function or site.module or "an unknown place"
    where = f"{site.file}:{site.line}" if site.exact and site.line > 0 else site.file
    return f"{site.function} ({where})" if site.function else where


def brief(name: str, most: int = 60) -> str:
    """Shorten the name of a kernel, which may be a line of template arguments: its beginning tells what it is."""
    return name if len(name) <= most else f"{name[: most - 3]}..."


def call(name: str) -> str:
    """Write the call of a function or method as code."""
    return f"`{name}()`"


def method(name: str) -> str:
    """Write the call of a method of some object as code."""
    return f"`.{name}()`"
