"""Laws of the contract that `buf lint` cannot be asked for here, and that its stubs are those of its text."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2
from midwatch_proto.v1 import control_pb2, finding_pb2, ingest_pb2, query_pb2, trigger_pb2

PROTO = Path(__file__).resolve().parents[2] / "proto"
FILES = sorted((PROTO / "midwatch" / "v1").glob("*.proto"))
DECLARATION = re.compile(
    r"^\s*(message|enum|service|rpc|oneof|(optional |repeated )?[\w.]+ \w+ = \d+;|[A-Z_0-9]+ = \d+;)"
)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_everything_has_a_comment(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    declared = [number for number, line in enumerate(lines) if DECLARATION.match(line)]
    assert declared
    bare = [lines[number].strip() for number in declared if not lines[number - 1].strip().startswith("//")]
    assert not bare


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_zero_is_unspecified(path):
    for name, body in re.findall(r"^enum (\w+) \{(.*?)^\}", path.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE):
        prefix = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).upper()
        values = re.findall(r"^\s*([A-Z_0-9]+) = (\d+);", body, re.MULTILINE)
        assert values[0] == (f"{prefix}_UNSPECIFIED", "0")
        assert all(value.startswith(f"{prefix}_") for value, _ in values)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_every_file_has_its_stub_and_the_stub_its_text(path):
    """`proto/generate.py --check` compares every byte, this needs no tools: names and numbers of all fields."""
    module = __import__(f"midwatch_proto.v1.{path.stem}_pb2", fromlist=["DESCRIPTOR"])
    described = descriptor_pb2.FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)
    text = path.read_text(encoding="utf-8")
    assert described.package == "midwatch.v1"
    for message in described.message_type:
        body = re.search(rf"^message {message.name} \{{(.*?)^\}}", text, re.DOTALL | re.MULTILINE)
        assert body, message.name
        written = re.findall(r"(\w+) = (\d+);", body[1])
        assert written == [(field.name, str(field.number)) for field in message.field]
    assert len(re.findall(r"^message ", text, re.MULTILINE)) == len(described.message_type)


def test_the_wire_name_is_the_contracts_and_the_python_name_is_not_the_agents():
    assert finding_pb2.Finding.DESCRIPTOR.full_name == "midwatch.v1.Finding"
    assert finding_pb2.__name__ == "midwatch_proto.v1.finding_pb2"


def test_the_services_are_there():
    calls = {
        f"{service.name}.{method.name}"
        for module in (control_pb2, ingest_pb2, query_pb2, trigger_pb2)
        for service in module.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    }
    assert {"IngestService.Upload", "ControlService.Attach", "TriggerService.Trigger", "QueryService.GetTrace"} <= calls
