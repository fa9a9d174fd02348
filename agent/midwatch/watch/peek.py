"""Looking at variables and attributes of the host's objects without running any code of the host's.

No ``getattr``, no property, no ``__getattr__``: only slots, instance dictionaries and class dictionaries, through
descriptors that are known to be CPython's own. What is found never leaves the process and is not kept.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import lru_cache
from types import FrameType, GetSetDescriptorType, MappingProxyType, MemberDescriptorType
from typing import Any, Final, cast

from midwatch.watch.frames import local_variables

MISSING: Final = object()
_MRO: Any = type.__dict__["__mro__"]
_CLASS_DICT: Any = type.__dict__["__dict__"]
_OPTIMIZED = 0x1
"""``CO_OPTIMIZED``: a function, whose locals are slots and not a dictionary."""


def attribute(value: object, name: str) -> object:
    """Return what ``value.name`` is stored as (a slot, an instance or a class attribute, unbound), or `MISSING`."""
    if issubclass(type(value), type):  # `isinstance` would ask the object for its ``__class__``
        return _in_mro(cast("type", value), name)
    in_class = _in_mro(type(value), name)
    if type(in_class) is MemberDescriptorType:
        try:
            return in_class.__get__(value)
        except AttributeError:
            return MISSING
    return dict.get(instance_dict(value), name, in_class)


def instance_dict(value: object) -> dict[str, object]:
    """Return the ``__dict__`` of an object, an empty one where it has none or its class made one up."""
    descriptor = _in_mro(type(value), "__dict__")
    if type(descriptor) not in (GetSetDescriptorType, MemberDescriptorType):
        return {}
    found = descriptor.__get__(value)  # type: ignore[attr-defined]
    return found if type(found) is dict else {}


def variable(frame: FrameType, name: str, *, local: bool) -> object:
    """Return the value of a variable of ``frame``, or `MISSING` where it has none."""
    if not local:
        return dict.get(frame.f_globals, name, MISSING)
    return _local_reader()(frame, name) if frame.f_code.co_flags & _OPTIMIZED else MISSING


def _in_mro(cls: type, name: str) -> object:
    for base in _MRO.__get__(cls):
        namespace: MappingProxyType[str, object] = _CLASS_DICT.__get__(base)
        if name in namespace:
            return namespace[name]
    return MISSING


@lru_cache(maxsize=1)
def _local_reader() -> Callable[[FrameType, str], object]:
    """Return how to read a local variable. From 3.12 there is a C function for just that.

    Before, ``f_locals`` is the only way. It leaves a snapshot of all locals on the frame, which lives until the
    function returns and keeps alive what the function may drop earlier: so it is read only in frames known to hold or
    to await a lock. The snapshot must not be cleared afterwards: a profile function in the same frame would copy the
    empty one back.
    """
    if sys.version_info < (3, 12):
        return lambda frame, name: local_variables(frame).get(name, MISSING)
    else:  # noqa: RET505 - a type checker reads one branch, by version
        import ctypes

        get_var = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.py_object)(
            ("PyFrame_GetVar", ctypes.pythonapi)
        )

        def read(frame: FrameType, name: str) -> object:
            try:
                return get_var(frame, name)
            except NameError:
                return MISSING

        return read
