from __future__ import annotations

import pytest
from midwatch_proto.v1 import control_pb2, ingest_pb2, query_pb2, trigger_pb2
from midwatch_server.errors import TooLongError
from midwatch_server.limits import IDS, MAX_ID, MAX_NAME, MAX_TEXT, bounded

CALLS = (ingest_pb2, control_pb2, query_pb2, trigger_pb2)
OTHERS_IDS = {"trace_id", "compile_id", "pci_bus_id"}
"""Made by others, and never asked for."""


def texts(descriptor, path=()):
    """Yield the path of every text in a message."""
    for field in descriptor.fields:
        if field.message_type is not None:
            yield from texts(field.message_type, (*path, field.name))
        elif field.type == field.TYPE_STRING:
            yield (*path, field.name)


def filled(message, path, text):
    """Set the text at a path."""
    *outer, last = path
    inner = message
    for name in outer:
        inner = getattr(inner, name)
        inner = inner.add() if hasattr(inner, "add") else inner
    if isinstance(getattr(inner, last), str):
        setattr(inner, last, text)
    else:
        getattr(inner, last).append(text)
    return message


def requests():
    """Every message that a caller may send, but a batch, whose records are looked at one by one."""
    services = [service for module in CALLS for service in module.DESCRIPTOR.services_by_name.values()]
    methods = [method for service in services for method in service.methods]
    messages = {method.input_type.full_name: method.input_type._concrete_class for method in methods}
    del messages["midwatch.v1.UploadRequest"]
    return [*messages.values(), ingest_pb2.Record]


EVERY_TEXT = [(cls, path) for cls in requests() for path in texts(cls.DESCRIPTOR)]


def test_whatever_is_called_an_id_is_bounded_as_one():
    ids = {path[-1] for _, path in EVERY_TEXT if path[-1].endswith("_id")}
    assert ids | {"batch_id"} == IDS - {"occurrence_id"} | OTHERS_IDS


@pytest.mark.parametrize(("cls", "path"), [one for one in EVERY_TEXT if one[1][-1] in IDS])
def test_an_id_that_is_too_long_is_refused_and_not_repeated(cls, path):
    bounded(filled(cls(), path, "x" * MAX_ID))
    with pytest.raises(TooLongError) as error:
        bounded(filled(cls(), path, "x" * (MAX_ID + 1)))
    assert str(error.value) == f"{path[-1]} has at most 128 characters; this one has 129"


def test_every_other_text_is_cut_wherever_it_stands():
    for cls, path in EVERY_TEXT:
        if path[-1] in IDS:
            continue
        message = filled(cls(), path, "x" * 100_000)
        bounded(message)
        size = len(message.SerializeToString())
        assert MAX_NAME < size < MAX_TEXT + 100, path


def test_what_is_short_enough_stays_as_it_is():
    for limit, name in ((MAX_NAME, "host"), (MAX_TEXT, "cuda")):
        hello = control_pb2.AgentHello()
        setattr(hello.resource, name, "é" * limit)
        bounded(hello)
        assert getattr(hello.resource, name) == "é" * limit
        setattr(hello.resource, name, "é" * (limit + 1))
        bounded(hello)
        assert getattr(hello.resource, name) == "é" * (limit - 1) + "…"


def test_a_batch_is_bounded_without_its_records():
    request = ingest_pb2.UploadRequest()
    request.batch.records.add().capture.capture_id = "x" * 1000
    bounded(request)
    request.batch.batch_id = "x" * 1000
    with pytest.raises(TooLongError, match="batch_id has at most 128"):
        bounded(request)
