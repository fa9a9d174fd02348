"""Which function or method a frame is calling at its current instruction, by the name that the code calls it."""

from __future__ import annotations

import opcode
import sys
from types import CodeType

from midwatch.watch.bytecode import Op, attribute, op_at, op_before, producer, variable

_DUNDERS = {
    "BEFORE_ASYNC_WITH": "__aenter__",
    "BEFORE_WITH": "__enter__",
    "BINARY_SLICE": "__getitem__",
    "BINARY_SUBSCR": "__getitem__",
    "CONTAINS_OP": "__contains__",
    "CONVERT_VALUE": "__format__",
    "DELETE_SUBSCR": "__delitem__",
    "DICT_MERGE": "__iter__",
    "DICT_UPDATE": "__iter__",
    "FORMAT_SIMPLE": "__format__",
    "FORMAT_VALUE": "__format__",
    "FORMAT_WITH_SPEC": "__format__",
    "FOR_ITER": "__next__",
    "GET_AITER": "__aiter__",
    "GET_ANEXT": "__anext__",
    "GET_ITER": "__iter__",
    "GET_YIELD_FROM_ITER": "__iter__",
    "IMPORT_NAME": "__import__",
    "LIST_EXTEND": "__iter__",
    "SETUP_ASYNC_WITH": "__aenter__",
    "SETUP_WITH": "__enter__",
    "SET_UPDATE": "__iter__",
    "STORE_ATTR": "__setattr__",
    "STORE_SLICE": "__setitem__",
    "STORE_SUBSCR": "__setitem__",
    "TO_BOOL": "__bool__",
    "UNARY_INVERT": "__invert__",
    "UNARY_NEGATIVE": "__neg__",
    "UNARY_NOT": "__bool__",
    "UNPACK_EX": "__iter__",
    "UNPACK_SEQUENCE": "__iter__",
    "WITH_EXCEPT_START": "__exit__",
}
_OPERATORS = {
    "AND": "and", "FLOOR_DIVIDE": "floordiv", "LSHIFT": "lshift", "MATRIX_MULTIPLY": "matmul", "MODULO": "mod",
    "MULTIPLY": "mul", "OR": "or", "REMAINDER": "mod", "SUBTRACT": "sub", "TRUE_DIVIDE": "truediv", "POWER": "pow",
}  # fmt: skip
_COMPARISONS = {"<": "__lt__", "<=": "__le__", "==": "__eq__", "!=": "__ne__", ">": "__gt__", ">=": "__ge__"}
_BINARY_OPS: list[str] = [name.removeprefix("NB_") for name, _ in getattr(opcode, "_nb_ops", ())]
_COMPARE_SHIFT = 5 if sys.version_info >= (3, 13) else 4 if sys.version_info >= (3, 12) else 0


def callee(code: CodeType, lasti: int) -> str:
    """Return the name of what a frame of ``code`` is calling at byte ``lasti``, "" where it is not known.

    A method or function goes by its own last name (``item`` for ``loss.item()``, ``sleep`` for ``time.sleep``), an
    operation that Python turns into a call by its dunder (``__enter__`` for ``with lock``, ``__bool__`` for ``if
    mask``). A function that has just returned still counts as called until the next instruction begins.
    """
    raw = code.co_code
    if not 0 <= lasti < len(raw):
        return ""
    op = op_at(raw, lasti // 2)
    if op.name.startswith(("CALL", "PRECALL")):
        return _called(code, raw, op)
    if op.name.startswith(("BINARY_", "INPLACE_")) and op.name not in _DUNDERS:
        return _operator(op)
    if op.name == "COMPARE_OP":
        return _COMPARISONS.get(str(opcode.cmp_op[op.arg >> _COMPARE_SHIFT]), "")
    if "JUMP" in op.name:
        return "__bool__" if op.name.endswith(("IF_TRUE", "IF_FALSE", "OR_POP")) else ""
    return _DUNDERS.get(op.name) or attribute(code, op)


def call_target(raw: bytes, op: Op) -> Op | None:
    """Return the instruction that loaded what the call ``op`` calls; None where that is not known."""
    if op.name == "CALL" and sys.version_info[:2] == (3, 11):
        step = op_before(raw, op)
        if step is None:
            return None
        op = step[0]
    return producer(raw, op, _arguments(op))


def _arguments(op: Op) -> int:
    """Return how many values a call takes from the stack on top of what it calls."""
    if op.name == "CALL_FUNCTION_EX":
        return 1 + (op.arg & 1)
    if op.name in ("CALL_KW", "CALL_FUNCTION_KW"):
        return op.arg + 1
    return op.arg


def _called(code: CodeType, raw: bytes, op: Op) -> str:
    if op.name.startswith("CALL_INTRINSIC"):
        return ""
    if _leaves_with(code, raw, op):
        return "__exit__"
    target = call_target(raw, op)
    return (attribute(code, target) or variable(code, target)) if target is not None else ""


def _leaves_with(code: CodeType, raw: bytes, op: Op) -> bool:
    """Return whether ``op`` is the call at the normal end of a ``with``: it passes None three times."""
    passed, before = op.arg, list[Op]()
    while len(before) < 3:
        step = op_before(raw, op)
        if step is None:
            return False
        op = step[0]
        if op.name != "PRECALL":
            before.append(op)
    if before[0].name == "DUP_TOP":
        return [found.name for found in before] == ["DUP_TOP", "DUP_TOP", "LOAD_CONST"]
    # The first None stands in the place of what is called, which no real call does.
    return passed == 2 and all(found.name == "LOAD_CONST" and code.co_consts[found.arg] is None for found in before)


def _operator(op: Op) -> str:
    """Return the dunder of an arithmetic operation."""
    operation = _BINARY_OPS[op.arg] if op.name == "BINARY_OP" else op.name
    kind, _, rest = operation.partition("_")
    if kind == "INPLACE":
        return f"__i{_OPERATORS.get(rest, rest.lower())}__"
    name = rest if kind == "BINARY" else operation
    return f"__{_OPERATORS.get(name, name.lower())}__"
