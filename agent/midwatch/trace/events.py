"""The typed shape of one event: only the fields that the summary needs, the rest is skipped while parsing."""

from __future__ import annotations

import msgspec

EMPTY = msgspec.Raw(b"")
UNREADABLE = (msgspec.DecodeError, msgspec.ValidationError, UnicodeDecodeError, RecursionError)
"""What decoding raises for text that is none of ours; the last for one nested thousands deep."""
Number = float | str | None
Key = int | float | str | None


class Args(msgspec.Struct, gc=False):
    """``args`` of an event; spellings of several profiler versions."""

    correlation: Key = -1
    stream: Key = None
    device: Key = None
    bytes: Key = -1
    external: Key = msgspec.field(name="External id", default=-1)
    external_old: Key = msgspec.field(name="external id", default=-1)
    dims: msgspec.Raw = msgspec.field(name="Input Dims", default=EMPTY)
    dims_old: msgspec.Raw = msgspec.field(name="Input dims", default=EMPTY)
    types: msgspec.Raw = msgspec.field(name="Input type", default=EMPTY)
    grid: msgspec.Raw = EMPTY
    block: msgspec.Raw = EMPTY
    group: Key = msgspec.field(name="Process Group Name", default=None)
    collective: Key = msgspec.field(name="Collective name", default=None)
    name: object = None
    """Of a metadata event: the name of the thread or process."""


NO_ARGS = Args()
_PARSED_LIMIT = 4 << 20


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
    device_text: msgspec.Raw = msgspec.field(name="deviceProperties", default=EMPTY)
    cuda_runtime_version: Key = None
    torch_version: Key = None
    distributed_text: msgspec.Raw = msgspec.field(name="distributedInfo", default=EMPTY)
    midwatch: msgspec.Raw = EMPTY

    @property
    def devices(self) -> object:
        """``deviceProperties``, None where there are none."""
        return _parsed(self.device_text)

    @property
    def distributed(self) -> object:
        """``distributedInfo``, None where there is none."""
        return _parsed(self.distributed_text)


def _parsed(raw: msgspec.Raw) -> object:
    """What the text says; None where it is unreadable, or longer than devices or ranks ever are."""
    text = bytes(raw)
    if len(text) > _PARSED_LIMIT:
        return None
    try:
        return msgspec.json.decode(text or b"null")
    except UNREADABLE:
        return None


EVENTS = msgspec.json.Decoder(list[Event])
EVENT = msgspec.json.Decoder(Event)
HEAD = msgspec.json.Decoder(Head)
