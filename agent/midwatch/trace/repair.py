"""Local damage in the text of one event, put right: what the field's broken traces have shown."""

from __future__ import annotations

import re

_NAN = re.compile(r"(?<=[:\[,\s])-?(?:NaN|Infinity|nan|inf)(?=\s*[,\]}])")
_BACKSLASH = re.compile(r'\\(?!["\\/bfnrt]|u[0-9a-fA-F]{4})')
_CONTROL = re.compile(r"[\x00-\x1f]")
_NAME = re.compile(
    r'("name"\s*:\s*")(.*?)("\s*(?:,\s*"(?:ph|cat|pid|tid|ts|dur|args|id|s)"\s*:|\}\s*(?:\}|\Z)))', re.DOTALL
)
_QUOTE = re.compile(r'(?<!\\)"')
_BARE_DUR = re.compile(r'"(ts|dur)"\s*:\s*(?=[,}])')


def _quote_name(match: re.Match[str]) -> str:
    inner = _QUOTE.sub(r"\"", match[2])
    if inner.endswith("\\") and not inner.endswith("\\\\"):
        inner += "\\"
    return match[1] + inner + match[3]


def repair(text: bytes) -> bytes:
    """Return the text of one event with raw bytes, ``NaN``, stray backslashes and unescaped quotes in its name mended.

    The result may still be malformed; the caller then drops the event and counts it.
    """
    mended = text.decode("utf-8", "replace")
    mended = _CONTROL.sub(" ", mended)
    mended = _NAN.sub("null", mended)
    mended = _BARE_DUR.sub(r'"\1": null', mended)
    mended = _NAME.sub(_quote_name, mended)
    mended = _BACKSLASH.sub(r"\\\\", mended)
    return mended.encode()
