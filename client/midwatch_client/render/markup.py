"""Markup that cannot be broken into: every text is escaped, and only what is built here is not."""

from __future__ import annotations

from html import escape

from midwatch_server.visible import visible

VOID = frozenset({"meta", "rect", "line", "path", "br"})


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


def el(tag: str, /, *children: str | None, **attributes: str | float | None) -> Markup:
    """Return an element.

    Args:
        tag: Its name.
        children: Elements, and texts, which are escaped; None is left out.
        attributes: Underscores stand for hyphens, one at the end is dropped (``class_``); None is left out.
    """
    told = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_text(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    if tag in VOID and not children:
        return Markup(f"<{tag}{told}/>")
    return Markup(f"<{tag}{told}>{join(*children)}</{tag}>")


def join(*children: str | None) -> Markup:
    """Return elements and texts one after the other."""
    return Markup(
        "".join(one if isinstance(one, Markup) else escape(visible(one)) for one in children if one is not None)
    )


def _text(value: str | float) -> str:
    return visible(value) if isinstance(value, str) else f"{value:.2f}".rstrip("0").rstrip(".")
