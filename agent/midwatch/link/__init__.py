"""The agent's end of the link to the companion."""

from midwatch.link.link import Link

__all__ = ["Link"]
