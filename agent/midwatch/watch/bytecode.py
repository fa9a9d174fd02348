"""Reading byte code backwards from one instruction, on every CPython from 3.10 to 3.13.

An instruction is one unit of two bytes, perhaps with ``EXTENDED_ARG`` units before it and, from 3.11, inline caches
behind it (`co_code` shows them as opcode 0). So code can be read backwards, and what it costs depends on the size of
the expression, not on that of the function.

What computed a value is found by counting the stack: walk back from its use, subtract what each instruction adds to
the stack, and the instruction at which nothing is left above the slot is the one that filled it. Positions
(`co_positions`) would do on 3.11 and later only, and do not match for starred calls over several lines.
"""

from __future__ import annotations

import opcode
import sys
from types import CodeType
from typing import NamedTuple

_CACHE = 0
_HAS_ARG = frozenset(getattr(opcode, "hasarg", range(opcode.HAVE_ARGUMENT, 256)))
_JUMPS = frozenset(opcode.hasjrel) | frozenset(opcode.hasjabs)
_ABSOLUTE = frozenset(opcode.hasjabs)
_NO_FALL_THROUGH = frozenset(
    {
        "JUMP_ABSOLUTE", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT", "JUMP_FORWARD", "RAISE_VARARGS", "RERAISE",
        "RETURN_CONST", "RETURN_VALUE",
    }
)  # fmt: skip
_PASSED_OVER = (
    "CACHE", "COPY_FREE_VARS", "EXTENDED_ARG", "KW_NAMES", "NOP", "POP_", "PRECALL", "PUSH_NULL", "RESUME",
    "STORE_",
)  # fmt: skip
"""Beginnings of the names of instructions that leave no new value on the top of the stack."""
_MAX_STEPS = 4000


class Op(NamedTuple):
    """One instruction. ``start`` is the unit of its first ``EXTENDED_ARG``, ``unit`` that of the instruction itself."""

    start: int
    unit: int
    name: str
    arg: int


def op_at(raw: bytes, unit: int) -> Op:
    """Return the instruction whose unit, or one of whose inline caches, is ``unit``."""
    while unit > 0 and raw[2 * unit] == _CACHE:
        unit -= 1
    start, arg, shift = unit, raw[2 * unit + 1], 8
    while start > 0 and raw[2 * start - 2] == opcode.EXTENDED_ARG:
        start -= 1
        arg |= raw[2 * start + 1] << shift
        shift += 8
    return Op(start, unit, opcode.opname[raw[2 * unit]], arg)


def op_before(raw: bytes, op: Op) -> tuple[Op, bool] | None:
    """Return an instruction that runs right before ``op``, and whether it gets there by a jump; None where unknown."""
    if op.start == 0:
        return None
    before = op_at(raw, op.start - 1)
    if before.name not in _NO_FALL_THROUGH:
        return before, False
    for _ in range(_MAX_STEPS):
        if raw[2 * before.unit] in _JUMPS and jump_target(raw, before) == op.start:
            return before, True
        if before.start == 0:
            return None
        before = op_at(raw, before.start - 1)
    return None


def jump_target(raw: bytes, op: Op) -> int:
    """Return the unit that the jump ``op`` leads to."""
    if raw[2 * op.unit] in _ABSOLUTE:
        return op.arg
    behind = _behind(raw, op)
    return behind - op.arg if "BACKWARD" in op.name else behind + op.arg


def successors(raw: bytes, op: Op) -> list[tuple[Op, int]]:
    """Return what may run after ``op``, exceptions aside: instructions, each with the change of the stack."""
    code = raw[2 * op.unit]
    arg = op.arg if code in _HAS_ARG else None
    found = []
    behind = _behind(raw, op)
    if op.name not in _NO_FALL_THROUGH and 2 * behind < len(raw):
        found.append((_op_from(raw, behind), opcode.stack_effect(code, arg, jump=False)))
    # In 3.10 the SETUP instructions "jump" to their handlers: only an exception gets there.
    if code in _JUMPS and not op.name.startswith("SETUP_"):
        found.append((_op_from(raw, jump_target(raw, op)), opcode.stack_effect(code, arg, jump=True)))
    return found


def next_op(raw: bytes, op: Op) -> Op | None:
    """Return the instruction behind ``op`` in the code, None at its end."""
    behind = _behind(raw, op)
    return _op_from(raw, behind) if 2 * behind < len(raw) else None


def _behind(raw: bytes, op: Op) -> int:
    """Return the unit behind ``op`` and its caches."""
    behind = op.unit + 1
    while sys.version_info >= (3, 11) and 2 * behind < len(raw) and raw[2 * behind] == _CACHE:
        behind += 1
    return behind


def _op_from(raw: bytes, start: int) -> Op:
    """Return the instruction that begins at unit ``start``, with or without ``EXTENDED_ARG``."""
    while raw[2 * start] == opcode.EXTENDED_ARG:
        start += 1
    return op_at(raw, start)


def producer(raw: bytes, op: Op, above: int) -> Op | None:
    """Return what filled the slot that has ``above`` values on top of it when ``op`` begins; None where unknown."""
    for _ in range(_MAX_STEPS):
        step = op_before(raw, op)
        if step is None:
            return None
        op, jumped = step
        if above <= 0 and not _leaves_nothing(raw, op):
            return op
        code = raw[2 * op.unit]
        above -= opcode.stack_effect(code, op.arg if code in _HAS_ARG else None, jump=jumped)
    return None


def _leaves_nothing(raw: bytes, op: Op) -> bool:
    if op.name == "STORE_FAST_LOAD_FAST":
        return False
    return raw[2 * op.unit] in _JUMPS or op.name.startswith(_PASSED_OVER)


def variable(code: CodeType, op: Op) -> str:
    """Return the name of the variable that ``op`` loads, "" where it loads none (or another kind of value)."""
    if op.name in ("LOAD_NAME", "LOAD_CLASSDEREF", "LOAD_FROM_DICT_OR_GLOBALS"):
        return code.co_names[op.arg] if op.name != "LOAD_CLASSDEREF" else _local(code, op.arg, deref=True)
    if op.name == "LOAD_GLOBAL":
        return code.co_names[op.arg >> 1 if sys.version_info >= (3, 11) else op.arg]
    if op.name in ("LOAD_FAST_LOAD_FAST", "STORE_FAST_LOAD_FAST"):
        return _local(code, op.arg & 15)
    if op.name in ("LOAD_DEREF", "LOAD_FROM_DICT_OR_DEREF"):
        return _local(code, op.arg, deref=True)
    if op.name.startswith("LOAD_FAST"):
        return _local(code, op.arg)
    return ""


def attribute(code: CodeType, op: Op) -> str:
    """Return the name of the attribute or method that ``op`` loads from a value, "" where it does not."""
    if op.name == "LOAD_METHOD":
        return code.co_names[op.arg]
    if op.name == "LOAD_ATTR":
        return code.co_names[op.arg >> 1 if sys.version_info >= (3, 12) else op.arg]
    if op.name == "LOAD_SUPER_ATTR":
        return code.co_names[op.arg >> 2]
    return ""


def _local(code: CodeType, index: int, *, deref: bool = False) -> str:
    if sys.version_info >= (3, 11):
        names = code.co_varnames + tuple(name for name in code.co_cellvars if name not in code.co_varnames)
        return (names + code.co_freevars)[index]
    return (code.co_cellvars + code.co_freevars)[index] if deref else code.co_varnames[index]
