"""Whatever the facts say, there is a diagnosis, it is ranked, and it can be written as JSON."""

import dataclasses
import json
import typing

from hypothesis import given, settings
from hypothesis import strategies as st
from midwatch.model.finding import Verdict
from midwatch.model.requests import RequestRecord, UnitRecord
from midwatch.model.samples import CompileEvent, GcPause, LockWait, StackSample
from midwatch.model.spike import Baseline, Spike
from midwatch.model.trace import TraceSummary
from midwatch_server.diagnosis import Evidence, Report, diagnose, document
from midwatch_server.diagnosis.diff import compare, diff_document
from midwatch_server.diagnosis.failures import RULE_FAILED
from midwatch_server.diagnosis.worth import at_stake_ms

KNOWN = {float: st.floats(0, 1e4), int: st.integers(0, 50), bool: st.booleans()}
TEXTS = {
    "host": st.sampled_from(["python", "blocked", "lock", "gc", "ops", "alloc", "compile", "dispatch", "unknown"]),
    "cause": st.sampled_from(["item", "d2h", "h2d_pageable", "device_sync", "free", "other"]),
    "family": st.sampled_from(["gemm", "conv", "softmax", "attention", "elementwise", "other"]),
    "basis": st.sampled_from(["ledger", "annotation", "step", "window"]),
    "role": st.sampled_from(["request", "unit", "other"]),
    "what": st.sampled_from(["ops", "python", "blocked", "glue", "idle", "held", "gc", "queued", "unknown"]),
    "rule": st.sampled_from(["sketch", "new_shape"]),
    "tensor_cores": st.sampled_from(["yes", "no", "unknown"]),
    "memory": st.sampled_from(["Device -> Pageable", "Pinned -> Device"]),
    "callee": st.sampled_from(["", "item", "write", "collect", "acquire", "linear", "get"]),
    "module": st.sampled_from(["app", "torch.nn.functional", "asyncio.base_events", "threading"]),
    "names": st.just(("NVIDIA H200",)),
    "lanes": st.sampled_from([(), ("device",), ("host_ops", "runtime", "device")]),
}


def values(cls, **fixed):
    """Instances of a frozen class of the model with small, finite fields."""
    hints = typing.get_type_hints(cls)
    fields = {f.name: field(f.name, hints[f.name]) for f in dataclasses.fields(cls) if f.name not in fixed}
    return st.builds(cls, **fields, **fixed)


def field(name, hint):
    if name in TEXTS and (hint is str or typing.get_origin(hint) is tuple):
        return TEXTS[name]
    if hint in KNOWN:
        return KNOWN[hint]
    if hint is str:
        return st.sampled_from(["", "text"])
    arguments = typing.get_args(hint)
    if typing.get_origin(hint) is tuple:
        if arguments[-1] is Ellipsis:
            return st.lists(field("", arguments[0]), max_size=2).map(tuple)
        return st.tuples(*(field("", argument) for argument in arguments))
    if type(None) in arguments:
        return st.none() | field("", arguments[0])
    return values(hint) if dataclasses.is_dataclass(hint) else st.just(hint())


NS = st.integers(0, 500_000_000)
SPIKES = st.builds(
    Spike,
    spike_id=st.just("s"),
    request=values(RequestRecord, start_unix_ns=NS, duration_ns=NS),
    deadline_ms=KNOWN[float],
    rule=TEXTS["rule"],
    baseline=values(Baseline),
    samples=st.lists(values(StackSample, unix_ns=NS, weight_ns=NS), max_size=4).map(tuple),
    gc=st.lists(values(GcPause, start_unix_ns=NS, duration_ns=NS), max_size=2).map(tuple),
    locks=st.lists(values(LockWait, unix_ns=NS, duration_ns=NS), max_size=2).map(tuple),
    compiles=st.lists(values(CompileEvent, start_unix_ns=NS, duration_ns=NS), max_size=2).map(tuple),
    units=st.lists(values(UnitRecord, start_unix_ns=NS, duration_ns=NS), max_size=2).map(tuple),
    has_device=st.booleans(),
)


def check(evidence):
    diagnosis = diagnose(evidence)
    assert (diagnosis.verdict is Verdict.FINDINGS) == bool(diagnosis.findings)
    assert diagnosis.findings or diagnosis.reason
    assert [caveat.text for caveat in diagnosis.caveats if caveat.code == RULE_FAILED] == []
    gains = [at_stake_ms(finding) for finding in diagnosis.findings]
    assert gains == sorted(gains, reverse=True)
    for finding in (*diagnosis.findings, *diagnosis.notes):
        assert 0 <= finding.share_of_request <= 1
        assert 0 <= finding.share_of_overrun <= 1
        assert finding.title
        assert finding.recoverable_ms >= 0
    report = Report(diagnosis, summary=evidence.summary, spike=evidence.spike)
    json.dumps(document(report), allow_nan=False)


@settings(max_examples=60, deadline=None)
@given(values(TraceSummary))
def test_any_window(summary):
    check(Evidence(summary=summary))


@settings(max_examples=80, deadline=None)
@given(SPIKES)
def test_any_spike(spike):
    check(Evidence(spike=spike))
    spent = Report(diagnose(Evidence(spike=spike)), spike=spike).account
    assert sum(claim.ms for claim in spent.claims) <= spent.duration_ms + 1e-6


@given(before=values(TraceSummary), after=values(TraceSummary))
@settings(max_examples=60, deadline=None)
def test_any_two_windows_can_be_compared(before, after):
    reports = [Report(diagnose(Evidence(summary=summary)), summary=summary) for summary in (before, after)]
    found = compare(*reports)
    assert found.answer
    assert all(change.status in {"gone", "new", "more", "less", "same"} for change in found.changes)
    assert json.dumps(diff_document(found), allow_nan=False)
