"""What a unit works on: shapes, dtypes and devices of the root module's tensor arguments. Never a value."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from midwatch.model.requests import Workload

_MAX_INPUTS = 16
_MAX_DEPTH = 3
_MAX_ITEMS = 64
_MAX_TEXTS = 4_096

_texts: dict[tuple[Any, ...], str] = {}


def describe(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Workload:
    """Return the workload of a call: one text a tensor, ``float32[8,128]@cuda:0``; batch is the first dimension."""
    tensors: list[Any] = []
    _collect(args, tensors, 0)
    if kwargs:
        _collect(kwargs, tensors, 0)
    if not tensors:
        return Workload()
    shape = tensors[0].shape
    first = shape[0] if len(shape) else 0
    return Workload(inputs=tuple(_text(tensor) for tensor in tensors), batch=first if type(first) is int else 0)


def _collect(value: Any, found: list[Any], depth: int) -> None:
    if len(found) >= _MAX_INPUTS:
        return
    kind = type(value)
    if kind in (str, bytes, int, float, bool) or value is None:
        return
    if isinstance(value, (tuple, list)):
        items: Any = value[:_MAX_ITEMS]
    elif isinstance(value, Mapping):
        items = list(value.values())[:_MAX_ITEMS]
    else:
        # A tensor, or something like one: what counts is that it names its shape, dtype and device.
        if hasattr(value, "dtype") and hasattr(value, "device") and hasattr(value, "shape"):
            found.append(value)
        return
    if depth < _MAX_DEPTH:
        for item in items:
            _collect(item, found, depth + 1)


def _text(tensor: Any) -> str:
    shape = tuple(tensor.shape)
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
