"""Text that others wrote, made visible: nothing in it steers a terminal, turns a line around, or hides.

Names of services, threads, files and kernels come from agents and traces that nobody vouches for. Whatever is written
for a person passes through here; a document for a program does not, since its format has escapes of its own.
"""

from __future__ import annotations


def visible(text: str) -> str:
    r"""Return ``text`` with all that is not seen as itself written as an escape, as `repr` does: ``\x1b``, ``\u202e``.

    That is control characters, C1 ones and line breaks among them, marks that turn the direction of writing around,
    spaces of no width, and halves of characters.
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)
