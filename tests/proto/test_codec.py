from __future__ import annotations

from dataclasses import MISSING, fields, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from midwatch.model.capture import Capture
from midwatch.model.finding import Diagnosis, Finding, Kind, Verdict
from midwatch.model.requests import RequestRecord
from midwatch.model.samples import GpuSample
from midwatch.model.site import Site
from midwatch.model.status import AgentStatus
from midwatch.wire import codec
from midwatch_proto.v1 import finding_pb2, requests_pb2

TRAVELLERS = sorted(codec.MESSAGES, key=lambda cls: cls.__name__)
FINDING = Finding(Kind.HOT_SYNC, "t", None, 1.0, 0.5, 0.5, 1.0, 3, 0.9)


@pytest.mark.parametrize("cls", TRAVELLERS, ids=lambda cls: cls.__name__)
def test_a_message_has_the_fields_of_its_class_and_no_others(cls):
    message = codec.MESSAGES[cls].DESCRIPTOR
    assert message.name == cls.__name__
    assert {field.name for field in message.fields} == {field.name for field in fields(cls)}


@pytest.mark.parametrize("cls", TRAVELLERS, ids=lambda cls: cls.__name__)
def test_a_scalar_whose_default_is_not_zero_can_be_told_from_an_absent_one(cls):
    for field in fields(cls):
        if field.default is not MISSING and isinstance(field.default, (bool, int, float, str)) and field.default:
            assert codec.MESSAGES[cls].DESCRIPTOR.fields_by_name[field.name].has_presence, field.name


@pytest.mark.parametrize("cls", TRAVELLERS, ids=lambda cls: cls.__name__)
@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_every_class_comes_back_as_it_went(cls, random_value, seed):
    value = random_value(cls, seed)
    assert codec.load(cls, codec.dump(value)) == value


@pytest.mark.parametrize("cls", TRAVELLERS, ids=lambda cls: cls.__name__)
def test_an_empty_message_reads_as_the_defaults(cls):
    value = codec.from_message(codec.MESSAGES[cls]())
    for field in fields(cls):
        if field.default is not MISSING:
            assert getattr(value, field.name) == field.default, field.name


def test_defaults_cost_no_bytes():
    assert len(codec.dump(GpuSample(unix_ns=1, device=0))) == 2
    assert len(codec.dump(AgentStatus(unix_ns=1))) == 2
    assert codec.dump(RequestRecord(0, "", 0, 0)) == b""


def test_zero_is_kept_where_the_default_is_another():
    value = RequestRecord(1, "r", 2, 3, in_flight=0, status="")
    assert codec.load(RequestRecord, codec.dump(value)) == value


def test_an_enum_number_of_a_newer_version_reads_as_unknown():
    message = codec.to_message(FINDING)
    message.kind = 999
    assert codec.from_message(message) == replace(FINDING, kind=Kind.UNKNOWN)
    newer = finding_pb2.Diagnosis(verdict=77, findings=[message])  # type: ignore[arg-type]
    assert codec.from_message(newer) == Diagnosis(Verdict.UNKNOWN, (replace(FINDING, kind=Kind.UNKNOWN),))


@pytest.mark.parametrize(("enum", "descriptor"), [(Kind, "Kind"), (Verdict, "Verdict")])
def test_enum_members_and_numbers_correspond(enum, descriptor):
    numbers = finding_pb2.DESCRIPTOR.enum_types_by_name[descriptor].values_by_name
    known = {f"{descriptor.upper()}_{one.name}" for one in enum if one is not enum.UNKNOWN}
    assert set(numbers) == known | {f"{descriptor.upper()}_UNSPECIFIED"}


def test_kinds_keep_their_numbers():
    order = "HOT_SYNC LAUNCH_BOUND HOST_GAP KERNEL_BOUND RECOMPILE GRAPH_BREAK GC_PAUSE GIL_CONTENTION LOCK_WAIT"
    order += " ALLOC_THRASH TRANSFER_BOUND CPU_STARVED GPU_THROTTLED GPU_CONTENDED QUEUEING DATA_STALL COLLECTIVE_WAIT"
    order += " FIRST_CALL"
    for number, name in enumerate(order.split(), start=1):
        assert codec.to_message(replace(FINDING, kind=Kind[name])).kind == number


def test_unknown_fields_of_a_newer_version_are_ignored():
    data = codec.dump(Site("a.py", 3, "f")) + b"\xfa\x3f\x03new"
    assert codec.load(Site, data) == Site("a.py", 3, "f")


def test_text_that_utf8_cannot_hold_is_sent_with_replacements():
    site = codec.load(Site, codec.dump(Site("caf\udce9.py", 3, "größe")))
    assert site == Site("caf?.py", 3, "größe")
    status = AgentStatus(1, drops=(("full\udcff", 2),))
    assert codec.load(AgentStatus, codec.dump(status)).drops == (("full?", 2),)


def test_what_does_not_travel_is_refused():
    with pytest.raises(KeyError):
        codec.to_message(object())
    with pytest.raises(KeyError):
        codec.from_message(requests_pb2.Note())


def test_a_capture_without_a_summary_has_none():
    assert codec.load(Capture, codec.dump(Capture("c", "demand", "refused"))).summary is None


def test_an_integer_beyond_64_bits_is_an_error_not_a_wrong_number():
    with pytest.raises(ValueError):
        codec.to_message(Site("a.py", 2**63, "f"))
