"""What may be said as a whole, and what a reader must know about the figures."""

from __future__ import annotations

from collections.abc import Sequence

from midwatch.model.finding import Finding, Verdict
from midwatch.model.trace import Caveat, DeviceFacts, RequestFacts, TraceSummary

from midwatch_server.diagnosis.account import Account
from midwatch_server.diagnosis.activity import Activity
from midwatch_server.diagnosis.evidence import HARDLY_SLOWED, Evidence
from midwatch_server.diagnosis.whereabouts import known_share, longest_wait, open_share, precision, whereabouts
from midwatch_server.diagnosis.words import ms, percent, place, plural

DEVICE_BOUND = 0.7
MOSTLY_BUSY = 0.5
"""A request in which the device works for `DEVICE_BOUND` of the time is device-bound; so is one in which it works for
`MOSTLY_BUSY` while the host has nothing left to do but wait for it, for `DEVICE_BOUND` of the time."""

COVERED = 0.5
"""Operators that cover this share of a request on the CPU are its work; and where it is known of this share what it
went into, and nothing of that is a finding, no cause is known."""

ALL_THREADS = (
    "start the profiler on the thread that runs the model, with ProfilerActivity.CPU, or let it record all threads "
    "(experimental_config=torch._C._profiler._ExperimentalConfig(profile_all_threads=True))"
)

IDLE = "idle"
"""The code of the caveat that the agent saw no request in its window."""

HARDLY = 0.05
"""Operators in less of a window without requests are no service at work: a health check, or a thread of its own."""

LIMITED = frozenset({"requests_missing", "window_shortened"})
"""Codes of the caveats that a window closed at its time limit, so that a longer one cannot be had."""

COLLECTIVES = 0.5
"""Where collectives are this share of the device's time, busy does not mean computing."""


def window_verdict(evidence: Evidence, findings: Sequence[Finding]) -> tuple[Verdict, str]:
    """Return the verdict of a window, with one sentence where it is not ``findings``."""
    summary = evidence.summary
    request = evidence.median_request()
    if findings:
        return Verdict.FINDINGS, ""
    if summary is None or request is None or request.wall_ms <= 0:
        return Verdict.INSUFFICIENT_DATA, (
            "The trace holds no work to judge; take a window in which at least one request begins and ends."
        )
    worked = summary.device.kernels > 0 or request.op_ms > HARDLY * request.wall_ms
    if not worked and IDLE in {caveat.code for caveat in summary.window.caveats}:
        return Verdict.INSUFFICIENT_DATA, _idle(summary)
    if evidence.device_lane_missing:
        return Verdict.INSUFFICIENT_DATA, (
            f"The device lane is {_missing(evidence, summary.device)}, so nothing can be said about the device; "
            "take another window."
        )
    verdict, reason = (
        _with_device(evidence, summary) if summary.device.kernels else _without_device(evidence, summary, request)
    )
    if verdict is Verdict.CLEAN and "truncated" in {caveat.code for caveat in summary.window.caveats}:
        return Verdict.INSUFFICIENT_DATA, (
            "The file ends in the middle, and what is cut off may be all that the device did; "
            f"{_remedy(summary)}. As far as the file goes: {reason}"
        )
    return verdict, reason


def _idle(summary: TraceSummary) -> str:
    """Say how to get a window with requests in it."""
    bounded = LIMITED & {caveat.code for caveat in summary.window.caveats}
    longer = "" if bounded else ", or let it stay open for longer (midwatch profile SERVICE --seconds 1)"
    return (
        f"The service served no request in the window of {ms(summary.window.duration_ms)}, so there is nothing to "
        f"judge: send it requests while the window is open{longer}. If it did serve some, the agent does not know "
        "where they begin: mark them with midwatch.request()."
    )


def _missing(evidence: Evidence, device: DeviceFacts) -> str:
    launches = device.launches + device.graph_launches
    if not device.kernels:
        return f"missing: {plural(launches, 'launch')} and no kernel record"
    return f"incomplete: {evidence.kernels_missing:,} of {plural(launches, 'launch')} have no kernel record"


def _with_device(evidence: Evidence, summary: TraceSummary) -> tuple[Verdict, str]:
    busy, whole = evidence.bound_share()
    collectives = sum(c.total_ms for c in summary.device.classes if c.name == "collective")
    if summary.device.busy_ms and collectives >= COLLECTIVES * summary.device.busy_ms:
        return Verdict.INSUFFICIENT_DATA, (
            f"The device is busy for {percent(busy)} of the {whole}, mostly in collectives, where ranks wait "
            "for each other: one rank's trace cannot say for whom; record all ranks at the same time and compare them."
        )
    if evidence.host_lane_missing:
        return Verdict.INSUFFICIENT_DATA, (
            f"Only the device was recorded: it is busy for {percent(busy)} of the {whole}, and what the host "
            f"did is not known; {_remedy(summary)}."
        )
    works = f"he device works for {percent(busy)} of the {whole}"
    waits = evidence.wait_share()
    if busy >= DEVICE_BOUND:
        return Verdict.CLEAN, f"Device-bound: t{works}{_handover(summary)}."
    if busy >= MOSTLY_BUSY and waits >= DEVICE_BOUND:
        works += f", the host waits for it for {percent(waits)}"
        return Verdict.CLEAN, f"Device-bound: t{works}{_handover(summary)}."
    if evidence.launches_unseen:
        return Verdict.INSUFFICIENT_DATA, (
            "Launches and kernels were recorded, and of the threads that launch nothing else: what the host does "
            f"between launches, and so why the device idles, is not known; {ALL_THREADS}."
        )
    return (
        Verdict.INSUFFICIENT_DATA,
        f"T{works}, and what was recorded does not explain the rest{_unrecorded(summary)}; {_remedy(summary)}.",
    )


def _handover(summary: TraceSummary) -> str:
    """Say so where the only waits are those that hand over the results."""
    if not any(wait.handover for wait in summary.waits):
        return ", and nothing that would shorten it is known"
    if all(wait.count == wait.handover for wait in summary.waits):
        return ", and the only wait is the hand-over of its result"
    return ", and no wait costs it anything"


def _without_device(evidence: Evidence, summary: TraceSummary, request: RequestFacts) -> tuple[Verdict, str]:
    measured = [facts.share for facts in summary.time if facts.what == "ops"]
    operators = measured[0] if measured else min(request.op_ms / request.wall_ms, 1.0)
    if operators >= COVERED:
        said = f"Operators on the CPU run for {percent(operators)} of the {evidence.noun}, and no cause was found"
        rest = whereabouts(summary, without="ops")
        told = f"; the rest: {rest}.{precision(summary)}" if rest else "."
        return Verdict.CLEAN, f"{said}{told}{longest_wait(summary)}"
    known, waits = known_share(summary), longest_wait(summary)
    if known >= COVERED or (waits and known + open_share(summary) >= COVERED):
        of = f"{evidence.main[0].route}, " if len(evidence.routes) > 1 else f"a {evidence.noun} of "
        return Verdict.CLEAN if known >= COVERED else Verdict.INSUFFICIENT_DATA, (
            f"No cause was found in {of}{ms(evidence.wall_ms())}: {whereabouts(summary)}.{precision(summary)}{waits}"
        )
    looks = sum(facts.samples for facts in summary.time)
    if looks:
        seen = f"{plural(looks, 'stack sample')} fell into the rest, too few to say where it goes"
        if told := whereabouts(summary, without="ops"):
            seen = f"the rest can be told of a part only: {told}"
    else:
        seen = f"what passed in between is not known{_unrecorded(summary)}"
    return Verdict.INSUFFICIENT_DATA, (
        f"No device work was recorded, and operators cover {percent(operators)} of the {evidence.noun}: {seen}; "
        f"{_remedy(summary)}."
    )


def _remedy(summary: TraceSummary) -> str:
    """Say what to do to get an answer, as the end of a sentence."""
    codes = {caveat.code for caveat in summary.window.caveats}
    if codes & LIMITED:
        return "send the service more requests while the window is open, which cannot be for longer, and take another"
    if codes & {"truncated", "bounded"}:
        return "record fewer requests, and copy the file when it is complete"
    if "samples" in summary.window.lanes or summary.window.basis == "ledger":  # the agent took it
        return "take a longer window (midwatch profile SERVICE --requests 100)"
    agent = "take a window with the agent (midwatch profile SERVICE), whose stack samples say what the host does"
    return agent if "python" in summary.window.lanes else f"{agent}, or record the trace with with_stack=True"


def _unrecorded(summary: TraceSummary) -> str:
    """Name the longest stretch of which nothing tells what the host did; "" where there is none."""
    gap = max((gap for gap in summary.gaps if gap.host == "unknown"), key=lambda gap: gap.max_ms, default=None)
    if gap is None or gap.max_ms <= 0:
        return ""
    at = f" at {gap.starts_ms[0]:.3f} ms" if gap.starts_ms else ""
    return f"; the longest stretch without any record of the host takes {ms(gap.max_ms)} traced{at}"


def window_caveats(evidence: Evidence) -> tuple[Caveat, ...]:
    """Return the window's own caveats, and what its milliseconds mean."""
    summary = evidence.summary
    if summary is None:
        return ()
    caveats = list(summary.window.caveats)
    codes = {caveat.code for caveat in caveats}
    factor = summary.window.untraced_factor
    if not any(code.startswith("untraced") for code in codes):
        if factor < HARDLY_SLOWED:
            text = (
                f"The profiler's own cost is taken off: dispatch and whole requests are traced ones times {factor:.2f}"
            )
            caveats.append(Caveat("untraced_factor", text))
        elif factor == 1.0 and {"host_ops", "python"}.intersection(summary.window.lanes):
            text = "No untraced latency is known: milliseconds still hold the profiler's own cost on the host"
            caveats.append(Caveat("untraced_unknown", text))
    if summary.window.basis == "window" and not codes & {"no_requests", IDLE}:
        caveats.append(Caveat("no_requests", "Nothing marks requests in this trace: figures refer to the whole window"))
    return tuple(caveats)


def spike_reason(account: Account, findings: Sequence[Finding]) -> str:
    """Say how much of the overrun is explained, and of the rest what is known; "" where findings cover it."""
    usual = f" beyond its usual {ms(account.usual_ms)}" if account.usual_ms else ""
    over = f"The request took {ms(account.duration_ms)}, {ms(account.overrun_ms)}{usual}"
    covered = sum(finding.share_of_overrun for finding in findings)
    if findings:
        return (
            ""
            if covered >= COVERED
            else f"{over}; what is named covers {percent(covered)} of that, the rest is not known."
        )
    operators = [claim for claim in account.places if claim.seen_as is Activity.OPERATORS]
    if operators and operators[0].share >= COVERED and operators[0].site is not None:
        return (
            f"{over}; {ms(operators[0].ms)} of it passed inside the model's operators in {place(operators[0].site)}: "
            "why they were slower is not known, a window would show it."
        )
    doubtful = sum(claim.share for claim in account.doubtful)
    if doubtful >= COVERED:
        return (
            f"{over}; for {percent(doubtful)} of that no two looks in a row found a thread at one place, so what held "
            "it up is not known: the notes say what was seen."
        )
    if not account.claims:
        return f"{over}; where that passed is not known: no sample found its threads in the service's own code."
    return f"{over}; nothing that was seen explains a quarter of it."
