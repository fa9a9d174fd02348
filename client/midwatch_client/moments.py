"""Moments as logs write them: numbers in some unit, or ISO 8601."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone
from decimal import Decimal, InvalidOperation

PER_UNIT_NS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}
_MOST_DIGITS = 20
"""Of a number before its point: nanoseconds of three thousand years."""
_UNTIL = (("s", 1e11), ("ms", 1e14), ("us", 1e17))
"""A number of no unit is the first of these below whose bound it is: seconds since 1970 reach 1e11 in the year 5138."""
_ISO = re.compile(
    r"(?P<day>\d{4}-\d\d-\d\d)[T ](?P<clock>\d\d:\d\d(?::\d\d)?)(?:[.,](?P<fraction>\d{1,9})\d*)?"
    r"\s?(?P<zone>Z|UTC|(?P<sign>[+-])(?P<hours>\d\d):?(?P<minutes>\d\d)?)?",
    re.ASCII,
)
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def unit_of(text: str) -> str:
    """Return what a moment is written in: ``s``, ``ms``, ``us``, ``ns`` by its size, or ``iso``.

    Raises:
        ValueError: It is neither a number nor ISO 8601.
    """
    try:
        size = abs(float(text))
    except ValueError:
        moment_ns(text, "iso")
        return "iso"
    return next((unit for unit, bound in _UNTIL if size < bound), "ns")


def moment_ns(text: str, unit: str) -> int:
    """Return nanoseconds since 1970, or since whatever the numbers count from. Without a zone it is UTC.

    Raises:
        ValueError: It is not written in ``unit``, or no moment.
    """
    return _iso_ns(text) if unit == "iso" else _number_ns(text, PER_UNIT_NS[unit])


def _number_ns(text: str, per_unit: int) -> int:
    try:
        number = Decimal(text)  # a float would round nanoseconds since 1970
    except InvalidOperation:
        raise ValueError(f"{text} is no moment") from None
    if not number.is_finite() or number.adjusted() > _MOST_DIGITS:
        raise ValueError(f"{text} is no moment")
    return int(number * per_unit)


def _iso_ns(text: str) -> int:
    match = _ISO.fullmatch(text)
    if match is None:
        raise ValueError(f"{text} is no moment")
    moment = datetime.fromisoformat(f"{match['day']}T{match['clock']}").replace(tzinfo=timezone.utc)
    if match["sign"]:
        ahead = timedelta(hours=int(match["hours"]), minutes=int(match["minutes"] or 0))
        moment = moment - ahead if match["sign"] == "+" else moment + ahead
    fraction = int((match["fraction"] or "0").ljust(9, "0"))
    return (moment - _EPOCH) // timedelta(seconds=1) * PER_UNIT_NS["s"] + fraction
