"""How long a text may be that comes from outside.

An id that is too long is refused: cut, it would be another id. Every other text is cut: a route of a megabyte is
somebody's mistake, and neither the store nor a table in a terminal should pay for it. The names of the fields decide,
so that a message that is added to the contract is covered from its first day.
"""

from __future__ import annotations

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from midwatch_server.errors import TooLongError

MAX_ID = 128
MAX_NAME = 512
MAX_TEXT = 4096

IDS = frozenset({"agent_id", "batch_id", "capture_id", "command_id", "incident_id", "occurrence_id", "spike_id"})
"""Ids of our own making. Others' (``trace_id``, ``pci_bus_id``) are texts like any other: nothing is found by them."""
NAMES = frozenset({"environment", "host", "reason", "route", "service", "service_version", "state"})
"""What people look for, sort by and see in tables."""


def bounded(message: Message) -> None:
    """Cut the texts of ``message``, in place, to `MAX_NAME` or `MAX_TEXT` characters; the last one is then an ellipsis.

    Records of a batch are left alone: each is looked at when it is taken in, so that a bad one costs itself alone.

    Raises `TooLongError` where an id has more than `MAX_ID` characters; the text names the field and not the id.
    """
    for field, value in message.ListFields():
        if isinstance(value, str):
            if len(value) > MAX_ID:
                setattr(message, field.name, _cut(field.name, value))
        elif isinstance(value, Message):
            _descend(value)
        elif field.type == FieldDescriptor.TYPE_MESSAGE:
            for item in value:
                _descend(item)
        elif field.type == FieldDescriptor.TYPE_STRING:
            for index, item in enumerate(value):
                if len(item) > MAX_ID:
                    value[index] = _cut(field.name, item)


def _descend(message: Message) -> None:
    # A message that is as short as the shortest bound holds no text that is longer; most are.
    if message.DESCRIPTOR.name != "Record" and message.ByteSize() > MAX_ID:
        bounded(message)


def _cut(name: str, text: str) -> str:
    """Return ``text`` as it may stay; it has more than `MAX_ID` characters."""
    if name in IDS:
        raise TooLongError(f"{name} has at most {MAX_ID} characters; this one has {len(text)}")
    limit = MAX_NAME if name in NAMES else MAX_TEXT
    return text if len(text) <= limit else text[: limit - 1] + "…"
