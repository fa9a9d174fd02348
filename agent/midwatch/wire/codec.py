"""Values to protobuf messages and back, driven by the dataclasses' fields.

A message has the name of its class, and its fields have the names of the class's fields (a test holds this). Rules:

* A field whose value is its default is not sent where the message can tell an absent field from a zero one, and an
  absent field reads as the default. So a field that an older sender does not know takes its default here, as in
  `midwatch.model.plain`.
* ``X | None`` is an absent message; a tuple of pairs is a repeated message of two fields.
* An enum member is sent by its number. A number that this version does not know reads as ``UNKNOWN``.
* Text that UTF-8 cannot hold (a file name with stray bytes) is sent with replacement characters.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Iterable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from enum import Enum
from types import ModuleType
from typing import Any, TypeVar

from google.protobuf.message import Message
from midwatch_proto.v1 import (
    capture_pb2,
    finding_pb2,
    incident_pb2,
    requests_pb2,
    resource_pb2,
    samples_pb2,
    site_pb2,
    spike_pb2,
    status_pb2,
    trace_pb2,
)

from midwatch.model import (
    capture,
    finding,
    incident,
    order,
    requests,
    resource,
    samples,
    site,
    spike,
    status,
    trace,
    workload,
)

T = TypeVar("T")

_MODULES: tuple[tuple[ModuleType, ModuleType], ...] = (
    (resource, resource_pb2),
    (site, site_pb2),
    (workload, requests_pb2),
    (requests, requests_pb2),
    (samples, samples_pb2),
    (spike, spike_pb2),
    (status, status_pb2),
    (trace, trace_pb2),
    (order, capture_pb2),
    (capture, capture_pb2),
    (finding, finding_pb2),
    (incident, incident_pb2),
)

MESSAGES: dict[type[Any], type[Message]] = {
    cls: getattr(stubs, name)
    for module, stubs in _MODULES
    for name, cls in vars(module).items()
    if isinstance(cls, type) and is_dataclass(cls) and cls.__module__ == module.__name__
}
"""Every class that travels, and its message."""

CLASSES: dict[str, type[Any]] = {message.DESCRIPTOR.full_name: cls for cls, message in MESSAGES.items()}
"""The other way round, by the full name of the message."""


def to_message(value: Any) -> Any:
    """Return the message of ``value``, an instance of a class in `MESSAGES`.

    Raises `KeyError` for a class that does not travel, `TypeError` or `ValueError` for a field of a wrong type.
    """
    plan = _plan(type(value))
    found: dict[str, Any] = {}
    for field in plan.fields:
        item = getattr(value, field.name)
        if item is None or (field.presence and item == field.default):
            continue
        found[field.name] = field.to_wire(item)
    return plan.message(**found)


def from_message(message: Message) -> Any:
    """Return the value of ``message``; the class follows from the message's name.

    Raises `KeyError` for a message that is not the counterpart of a class.
    """
    plan = _plan(CLASSES[message.DESCRIPTOR.full_name])
    found: dict[str, Any] = {}
    for field in plan.fields:
        if field.presence and field.default is not MISSING and not message.HasField(field.name):
            found[field.name] = field.default
        else:
            found[field.name] = field.from_wire(getattr(message, field.name))
    return plan.cls(**found)


def dump(value: Any) -> bytes:
    """Return ``value`` as bytes, as the store keeps it."""
    data: bytes = to_message(value).SerializeToString()
    return data


def load(cls: type[T], data: bytes) -> T:
    """Return the value of class ``cls`` that `dump` wrote. Raises protobuf's `DecodeError` for anything else."""
    return typing.cast("T", from_message(MESSAGES[cls].FromString(data)))


@dataclass(frozen=True, slots=True)
class _Field:
    """How one field travels; ``default`` is what an absent field reads as, `MISSING` where it must be there."""

    name: str
    presence: bool
    default: Any
    to_wire: Callable[[Any], Any]
    from_wire: Callable[[Any], Any]


@dataclass(frozen=True, slots=True)
class _Plan:
    """How one class travels; worked out once."""

    cls: type[Any]
    message: type[Message]
    fields: tuple[_Field, ...]


_PLANS: dict[type[Any], _Plan] = {}


def _plan(cls: type[Any]) -> _Plan:
    if cls not in _PLANS:
        _PLANS[cls] = _make_plan(cls)
    return _PLANS[cls]


def _make_plan(cls: type[Any]) -> _Plan:
    message = MESSAGES[cls]
    hints = typing.get_type_hints(cls)
    by_name: dict[str, Any] = dict(message.DESCRIPTOR.fields_by_name)
    made = [_field(f.name, hints[f.name], f.default, by_name[f.name]) for f in fields(cls)]
    return _Plan(cls, message, tuple(made))


def _field(name: str, hint: Any, default: Any, descriptor: Any) -> _Field:
    inner = hint
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        inner = next(arg for arg in typing.get_args(hint) if arg is not type(None))
        default = None
    to_wire, from_wire = _converters(inner, descriptor)
    return _Field(name, descriptor.has_presence, default, to_wire, from_wire)


def _converters(hint: Any, descriptor: Any) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    if typing.get_origin(hint) is tuple:
        return _tuple_converters(typing.get_args(hint)[0], descriptor)
    if is_dataclass(hint):
        return to_message, from_message
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _enum_converters(hint, descriptor.enum_type)
    if hint is str:
        return _text, _same
    return _same, _same


def _tuple_converters(item: Any, descriptor: Any) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    if typing.get_origin(item) is tuple:
        return _pair_converters(descriptor)
    to_wire, from_wire = _converters(item, descriptor)
    if from_wire is _same:
        return (list if to_wire is _same else _each(to_wire)), tuple
    return _each(to_wire), lambda items: tuple([from_wire(one) for one in items])


def _each(convert: Callable[[Any], Any]) -> Callable[[Iterable[Any]], list[Any]]:
    return lambda items: [convert(one) for one in items]


def _pair_converters(descriptor: Any) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    first, second = (field.name for field in sorted(descriptor.message_type.fields, key=lambda field: field.number))

    def to_wire(pairs: Iterable[tuple[Any, Any]]) -> list[dict[str, Any]]:
        return [{first: _scalar(one), second: _scalar(two)} for one, two in pairs]

    def from_wire(messages: Iterable[Any]) -> tuple[tuple[Any, Any], ...]:
        return tuple([(getattr(pair, first), getattr(pair, second)) for pair in messages])

    return to_wire, from_wire


def _enum_converters(cls: type[Enum], descriptor: Any) -> tuple[Callable[[Any], Any], Callable[[Any], Any]]:
    """Numbers of the members; ``UNKNOWN`` is the wire's 0, which is called ``…_UNSPECIFIED`` there."""
    prefix = descriptor.values_by_number[0].name.removesuffix("UNSPECIFIED")
    unknown = cls["UNKNOWN"]
    numbers = {one: descriptor.values_by_name[prefix + one.name].number for one in cls if one is not unknown}
    members = {number: one for one, number in numbers.items()}
    numbers[unknown] = 0
    return numbers.__getitem__, lambda number: members.get(number, unknown)


def _scalar(value: Any) -> Any:
    return _text(value) if isinstance(value, str) else value


def _text(value: str) -> str:
    return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")


def _same(value: Any) -> Any:
    return value
