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

_texts: dict[tuple[Any, ...], str] = {}
_workloads: dict[tuple[tuple[str, ...], int], Workload] = {}
"""One object for all requests of one shape: a thousand that are kept would set off a garbage collection."""
_of_tensors: dict[tuple[Any, ...], Workload] = {}
"""The same by what one tensor is, for calls with a single one."""


def describe(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Workload:
    """Return the workload of a call: one text a tensor, ``float32[8,128]@cuda:0``; batch is the first dimension."""
    torch = sys.modules.get("torch")
    if torch is None:
        return Workload()
    key = None
    if len(args) == 1 and not kwargs and type(args[0]) is torch.Tensor:
        # What most models get, in one look-up: a service that works is cold, and each call in here a microsecond.
        tensor = args[0]
        try:
            key = (tensor.dtype, tensor.shape, tensor.device)
            workload = _of_tensors.get(key)
        except (RuntimeError, TypeError):  # a nested tensor, or a symbolic size, which has no hash
            return _described(args, kwargs, torch.Tensor)
        if workload is not None:
            return workload
    workload = _described(args, kwargs, torch.Tensor)
    # While a model is traced, sizes are tensors, each one another: they would be kept, and never found again.
    if key is not None and len(_of_tensors) < _MAX_TEXTS and all(type(size) is int for size in key[1]):
        _of_tensors[key] = workload
    return workload


def _described(args: tuple[Any, ...], kwargs: Mapping[str, Any], kind: type) -> Workload:
    found: list[tuple[Any, Any]] = []
    _collect(args, found, 0, kind)
    if kwargs:
        _collect(kwargs, found, 0, kind)
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
