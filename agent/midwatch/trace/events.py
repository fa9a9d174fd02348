"""The typed shape of one event: only the fields that the summary needs, the rest is skipped while parsing."""

from __future__ import annotations

import msgspec

EMPTY = msgspec.Raw(b"")
Number = float | str | None
Key = int | float | str | None


class Args(msgspec.Struct, gc=False):
    """``args`` of an event; spellings of several profiler versions."""

    correlation: Key = None
    stream: Key = None
    device: Key = None
    bytes: Key = None
    external: Key = msgspec.field(name="External id", default=None)
    external_old: Key = msgspec.field(name="external id", default=None)
    dims: msgspec.Raw = msgspec.field(name="Input Dims", default=EMPTY)
    dims_old: msgspec.Raw = msgspec.field(name="Input dims", default=EMPTY)
    types: msgspec.Raw = msgspec.field(name="Input type", default=EMPTY)
    grid: msgspec.Raw = EMPTY
    block: msgspec.Raw = EMPTY
    group: Key = msgspec.field(name="Process Group Name", default=None)
    collective: Key = msgspec.field(name="Collective name", default=None)
    name: object = None
    """Of a metadata event: the name of the thread or process."""


class Event(msgspec.Struct, gc=False):
    """One event of ``traceEvents``."""

    ph: str = ""
    cat: str | None = None
    name: object = ""
    pid: Key = None
    tid: Key = None
    ts: Number = None
    dur: Number = None
    args: Args | str | None = None


class Head(msgspec.Struct):
    """What stands beside ``traceEvents``."""

    base_ns: Key = msgspec.field(name="baseTimeNanoseconds", default=None)
    devices: object = msgspec.field(name="deviceProperties", default=None)
    cuda_runtime_version: Key = None
    torch_version: Key = None
    distributed: object = msgspec.field(name="distributedInfo", default=None)
    midwatch: msgspec.Raw = EMPTY


EVENTS = msgspec.json.Decoder(list[Event])
EVENT = msgspec.json.Decoder(Event)
HEAD = msgspec.json.Decoder(Head)
