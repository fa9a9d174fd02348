"""What a unit works on: shapes, dtypes and devices of the root module's tensor arguments. Never a value."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from midwatch.model.workload import Workload

_MAX_INPUTS = 16
_MAX_DEPTH = 3
_MAX_ITEMS = 64
_MAX_TEXTS = 4_096
_PLAIN = frozenset({bool, float, int, str, type(None)})
"""Types of values that are no part of a workload."""

_texts: dict[tuple[Any, ...], str] = {}
_workloads: dict[tuple[tuple[str, ...], int], Workload] = {}
"""One object for all requests of one shape: a thousand that are kept would set off a garbage collection."""
_of_calls: dict[tuple[tuple[Any, ...], ...], Workload] = {}
"""The same by type, shape, dtype and device of each argument, for calls without containers."""
_NOTHING: tuple[tuple[tuple[Any, ...], ...], Workload] = (), Workload()


class Inputs:
    """Describes the calls of one root module.

    Most are like the one before, and to find that out takes least: a service that works is cold, and each step in here
    costs it a microsecond.
    """

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last = _NOTHING
        """The last call that has a place in `_of_calls`, and its workload."""

    def describe(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Workload:
        """Return what `describe` does."""
        known, workload = self._last
        values = (*args, *kwargs.values()) if kwargs else args
        if len(values) == len(known):
            try:
                for value, (kind, shape, dtype, device) in zip(values, known, strict=True):
                    if type(value) is not kind or (
                        shape is not None
                        and (value.shape != shape or value.dtype is not dtype or value.device != device)
                    ):
                        break
                else:
                    return workload
            except RuntimeError:
                pass  # a nested tensor, which has no shape
        known = _known(values)
        if not known:
            return describe(args, kwargs)
        found = _of_calls.get(known)
        if found is None:
            found = describe(args, kwargs)
            if len(_of_calls) < _MAX_TEXTS:
                _of_calls[known] = found
        self._last = known, found
        return found


def describe(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Workload:
    """Return the workload of a call: one text a tensor, ``float32[8,128]@cuda:0``; batch is the first dimension."""
    torch = sys.modules.get("torch")
    if torch is None:
        return Workload()
    found: list[tuple[Any, Any]] = []
    _collect(args, found, 0, torch.Tensor)
    if kwargs:
        _collect(kwargs, found, 0, torch.Tensor)
    if not found:
        return Workload()
    shape = found[0][1]
    first = shape[0] if shape else 0
    key = tuple([_text(*one) for one in found]), first if type(first) is int else 0
    workload = _workloads.get(key)
    if workload is None:
        workload = Workload(*key)
        if len(_workloads) < _MAX_TEXTS:
            _workloads[key] = workload
    return workload


def _known(values: tuple[Any, ...]) -> tuple[tuple[Any, ...], ...]:
    """Return what `Inputs` compares with; nothing where a call has more than plain tensors and plain values."""
    torch = sys.modules.get("torch")
    if torch is None or len(values) > _MAX_INPUTS:
        return ()
    known = []
    for value in values:
        kind = type(value)
        if kind in _PLAIN:
            known.append((kind, None, None, None))
        elif kind is not torch.Tensor:
            return ()
        else:
            # A symbol is no size to compare with: that would add a guard to somebody's graph.
            if any(type(size) is not int for size in _shape(value)):
                return ()
            known.append((kind, value.shape, value.dtype, value.device))
    return tuple(known)


def _collect(value: Any, found: list[tuple[Any, Any]], depth: int, tensor: type) -> None:
    """Add each tensor in ``value`` with its shape. Nothing but tensors is touched: a proxy would record the touch."""
    if len(found) >= _MAX_INPUTS:
        return
    if isinstance(value, tensor):
        found.append((value, _shape(value)))
        return
    if isinstance(value, (tuple, list)):
        items: Any = value[:_MAX_ITEMS]
    elif isinstance(value, Mapping):
        items = list(value.values())[:_MAX_ITEMS]
    else:
        return
    if depth < _MAX_DEPTH:
        for item in items:
            _collect(item, found, depth + 1, tensor)


def _shape(tensor: Any) -> tuple[Any, ...]:
    try:
        return tuple(tensor.shape)
    except RuntimeError:  # a nested tensor, whose rows differ in length
        return (tensor.size(0), "?")


def _text(tensor: Any, shape: tuple[Any, ...]) -> str:
    key = (tensor.dtype, shape, tensor.device)
    try:
        text = _texts.get(key)
    except TypeError:  # a symbolic size, which has no hash
        text = None
    if text is None:
        sizes = ",".join(str(size) if type(size) is int else "?" for size in shape)
        text = f"{str(tensor.dtype).removeprefix('torch.')}[{sizes}]@{tensor.device}"
        if len(_texts) < _MAX_TEXTS and "?" not in text:
            _texts[key] = text
    return text
