"""What a fork of the service's must not fall into: a spawn of the companion, and an import on a thread of the agent's.

A service may fork at any moment, and pre-forking servers do so soon after their imports, when the agent starts as well.

* Amid a spawn the child would inherit its pipes: `subprocess` waits for the end of one of them, and so for the end of
  that child.
* Amid an import the child would inherit the lock of the module, held by a thread that it does not have: it would stand
  still for good as soon as it imports that module itself, and many that the agent needs are the standard library's.

Hence a fork and these wait for each other; they take some milliseconds, the first import of the agent's inside 0.1 s.
"""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

_LONGEST_S = 1.0
"""No fork of the service's waits longer: it may itself come amid an import that the agent's thread is waiting for."""

# Re-entrant, since a signal handler that runs meanwhile may fork.
_gate = threading.RLock()
_forking = threading.local()


def held_off() -> AbstractContextManager[object]:
    """Return what holds forks off while it is held, in a ``with``."""
    return _gate


def _before_fork() -> None:
    _forking.held = _gate.acquire(timeout=_LONGEST_S)


def _after_fork_in_parent() -> None:
    # Nothing is held where this module was imported amid a fork.
    if getattr(_forking, "held", False):
        _forking.held = False
        _gate.release()


def _after_fork_in_child() -> None:
    """Whoever holds the old gate may be a thread that the child does not have."""
    global _gate
    _gate = threading.RLock()


os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
