"""The expression by which code reaches a lock: a variable, then attributes (``self._lock``, ``RANKS_LOCK``)."""

from __future__ import annotations

from types import CodeType, FrameType
from typing import NamedTuple

from midwatch.watch import peek
from midwatch.watch.bytecode import Op, attribute, op_at, producer, variable
from midwatch.watch.callee import call_target

ENTERS = frozenset({"BEFORE_WITH", "SETUP_WITH"})
_LOCALS = ("LOAD_FAST", "LOAD_DEREF", "LOAD_CLASSDEREF", "STORE_FAST_LOAD_FAST")
_MAX_NAMES = 6


class Access(NamedTuple):
    """A variable (``local`` or global) and the attributes after it."""

    local: bool
    names: tuple[str, ...]

    @property
    def text(self) -> str:
        """How the code writes it."""
        return ".".join(self.names)

    def resolve(self, frame: FrameType) -> object:
        """Return the object that it names in ``frame``, or `peek.MISSING`; runs none of the host's code."""
        value = peek.variable(frame, self.names[0], local=self.local)
        for name in self.names[1:]:
            if value is peek.MISSING:
                break
            value = peek.attribute(value, name)
        return value


def entered(code: CodeType, raw: bytes, op: Op) -> Access | None:
    """Return what a ``with`` enters at ``op``; None where ``op`` is no ``with`` or the expression is another kind."""
    return _value_before(code, raw, op) if op.name in ENTERS else None


def called_on(code: CodeType, raw: bytes, op: Op, methods: frozenset[str]) -> Access | None:
    """Return on what the call ``op`` calls one of ``methods``; None where it does not."""
    if not op.name.startswith("CALL"):
        return None
    target = call_target(raw, op)
    if target is None or attribute(code, target) not in methods:
        return None
    return _value_before(code, raw, target)


def acquired(code: CodeType, lasti: int) -> Access | None:
    """Return what the code is acquiring at byte ``lasti``, by ``with`` or by a call of ``acquire``."""
    raw = code.co_code
    op = op_at(raw, lasti // 2)
    return entered(code, raw, op) or called_on(code, raw, op, frozenset({"acquire", "__enter__"}))


def _value_before(code: CodeType, raw: bytes, op: Op) -> Access | None:
    """Return the expression on top of the stack when ``op`` begins."""
    names: list[str] = []
    while len(names) < _MAX_NAMES:
        found = producer(raw, op, 0)
        if found is None:
            return None
        op = found
        root = variable(code, op)
        if root:
            return Access(op.name.startswith(_LOCALS), (root, *reversed(names)))
        if op.name != "LOAD_ATTR":
            return None
        names.append(attribute(code, op))
    return None
