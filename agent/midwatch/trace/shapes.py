"""Input dimensions and types of an operator, as a person writes them."""

from __future__ import annotations

import json
from functools import lru_cache
from typing import Any

_SHORT = {
    "c10::BFloat16": "bf16",
    "c10::Half": "f16",
    "float": "f32",
    "double": "f64",
    "long": "i64",
    "long int": "i64",
    "int": "i32",
    "bool": "bool",
}


@lru_cache(maxsize=4096)
def shape_text(dims: bytes, types: bytes) -> str:
    """``f32[64,512] x f32[512,512]``, "" where there is nothing."""
    sizes, kinds = _parsed(dims), _parsed(types)
    parts = []
    for i, size in enumerate(sizes):
        if isinstance(size, list) and size and all(isinstance(n, int) for n in size):
            kind = kinds[i] if i < len(kinds) and isinstance(kinds[i], str) else ""
            parts.append(f"{_SHORT.get(kind, kind)}[{','.join(str(n) for n in size)}]")
    return " x ".join(parts[:4])


def _parsed(text: bytes) -> list[Any]:
    try:
        value = json.loads(text) if text else []
    except ValueError:
        return []
    return value if isinstance(value, list) else []
