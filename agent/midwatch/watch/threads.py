"""Names of threads, without waiting for a lock of `threading` and without running a subclass's code."""

from __future__ import annotations

import threading

from midwatch.model.tracks import ThreadName
from midwatch.watch.peek import instance_dict

OWN_PREFIX = "midwatch"
"""How the names of the agent's own threads begin."""
_MAX_NAME = 64


def describe(ident: int, *, redact: bool = False) -> ThreadName:
    """Return what is known of a running thread: its native id and name, 0 and "" where it did not come from Python."""
    active: dict[int, threading.Thread] = getattr(threading, "_active", {})
    known = instance_dict(active.get(ident))
    native_id, name = known.get("_native_id"), known.get("_name")
    return ThreadName(
        native_id=native_id if type(native_id) is int else 0,
        ident=ident,
        name=name[:_MAX_NAME] if type(name) is str and not redact else "",
    )


def everyone(*, redact: bool = False) -> list[ThreadName]:
    """Return what is known of all threads that Python knows."""
    return [describe(ident, redact=redact) for ident in tuple(getattr(threading, "_active", {}))]


def is_own(ident: int) -> bool:
    """Return whether this is a thread of the agent's."""
    return describe(ident).name.startswith(OWN_PREFIX)
