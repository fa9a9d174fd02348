"""Which locks a code object holds at which of its instructions, read from the byte code."""

from __future__ import annotations

import opcode
from collections.abc import Callable
from types import CodeType
from typing import NamedTuple

from midwatch.watch.access import ENTERS, Access, called_on, entered
from midwatch.watch.bytecode import Op, next_op, op_at, successors

_ACQUIRE = frozenset({"acquire"})
_RELEASE = frozenset({"release"})
_MAX_CODE = 40_000
"""Bytes; functions beyond are not read."""
_ENTERS = frozenset(opcode.opmap[name] for name in ENTERS if name in opcode.opmap)


class Held(NamedTuple):
    """The instructions (by unit) during which what ``access`` names is held."""

    access: Access
    units: frozenset[int]


def held_in(code: CodeType) -> tuple[Held, ...]:
    """Return what ``code`` holds: the bodies of its ``with`` statements, and what lies behind its ``acquire()`` calls.

    Exceptions are not followed, so code in an ``except`` inside the stretch is not part of it.
    """
    raw = code.co_code
    acquires, releases = "acquire" in code.co_names, "release" in code.co_names
    calls = acquires and releases
    # Most functions hold nothing, which one look at their opcodes tells a hundred times sooner than reading them.
    if len(raw) > _MAX_CODE or not (calls or not _ENTERS.isdisjoint(raw[::2])):
        return ()
    found = []
    op: Op | None = op_at(raw, 0)
    while op is not None:
        if op.name in ENTERS:
            found.append(_with_body(code, raw, op))
        elif calls and op.name.startswith("CALL"):
            found.append(_behind_acquire(code, raw, op))
        op = next_op(raw, op)
    return tuple(held for held in found if held is not None and held.units)


def holds_at(held: tuple[Held, ...], raw: bytes, lasti: int) -> tuple[Access, ...]:
    """Return what is held at byte ``lasti``."""
    unit = op_at(raw, lasti // 2).unit
    return tuple(stretch.access for stretch in held if unit in stretch.units)


def _with_body(code: CodeType, raw: bytes, op: Op) -> Held | None:
    access = entered(code, raw, op)
    if access is None:
        return None
    # Entering leaves the exit function on the stack and the target of ``as`` on top of it. Where the stack is lower
    # than the exit function, the body has been left.
    return Held(access, _reach(raw, [(behind, 0) for behind, _ in successors(raw, op)], floor=-1))


def _behind_acquire(code: CodeType, raw: bytes, op: Op) -> Held | None:
    access = called_on(code, raw, op, _ACQUIRE)
    if access is None:
        return None

    def ends(other: Op) -> bool:
        return called_on(code, raw, other, _RELEASE) == access

    return Held(access, _reach(raw, _where_acquired(raw, op), ends=ends))


def _where_acquired(raw: bytes, op: Op) -> list[tuple[Op, int]]:
    """Return where the code goes on once an ``acquire`` has succeeded; nowhere, where its result is kept for later."""
    behind = next_op(raw, op)
    while behind is not None and behind.name == "TO_BOOL":
        behind = next_op(raw, behind)
    if behind is None:
        return []
    ways = successors(raw, behind)
    if behind.name == "POP_TOP":
        return ways
    if "POP_JUMP" not in behind.name:
        return []
    return {"IF_TRUE": ways[1:], "IF_FALSE": ways[:1]}.get(behind.name[behind.name.index("IF_") :], [])


def _reach(
    raw: bytes, starts: list[tuple[Op, int]], *, floor: int | None = None, ends: Callable[[Op], bool] | None = None
) -> frozenset[int]:
    """Return the units that run from ``starts`` on, up to an instruction that ``ends`` or a stack below ``floor``."""
    seen: set[int] = set()
    ways = list(starts)
    while ways:
        op, height = ways.pop()
        if op.unit in seen or (floor is not None and height < floor):
            continue
        seen.add(op.unit)
        if ends is not None and ends(op):
            continue
        ways += [(behind, height + change) for behind, change in successors(raw, op)]
    return frozenset(seen)
