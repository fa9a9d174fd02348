"""What a report says, in words: the part that terminal and Markdown have in common."""

from __future__ import annotations

from datetime import datetime, timezone

from midwatch.model.finding import Finding, Kind, Verdict
from midwatch.model.site import Site
from midwatch.model.trace import DeviceFacts, TraceSummary
from midwatch_server.diagnosis import Evidence, Report
from midwatch_server.diagnosis.evidence import HARDLY_SLOWED
from midwatch_server.diagnosis.verdict import IDLE
from midwatch_server.diagnosis.words import ms, percent, plural
from midwatch_server.diagnosis.worth import NOTE_SHARE

HOW = {
    "sample": "the line was seen in a stack sample",
    "gc_callback": "the line was seen in the collection itself",
    "compile_callback": "the line was seen as the compilation began",
    "python_function": "a trace knows the function, not the line",
    "annotation": "known from an annotation",
    "module": "known from the module that ran",
}

NOUNS = {"step": "step", "window": "window"}
"""What figures refer to, where it is not the request."""

NOTHING = ms(0.0)
VERDICTS = {
    Verdict.FINDINGS: "Findings",
    Verdict.CLEAN: "Clean",
    Verdict.INSUFFICIENT_DATA: "Not enough data",
    Verdict.UNKNOWN: "A verdict that this version does not know; see `midwatch --version` here and at the collector",
}


def noun(report: Report) -> str:
    """Return what the figures refer to: ``request``, ``step`` or ``window``."""
    if report.summary is None or report.spike is not None:
        return "request"
    return NOUNS.get(report.summary.window.basis, "request")


def heading(report: Report) -> str:
    """Return the report's first line: what it is about."""
    if report.incident is not None:
        incident = report.incident
        return f"Incident {incident.incident_id}: {incident.kind.value} in {incident.service}, {incident.route}"
    service = f" of {report.resource.service}" if report.resource else ""
    if report.capture is not None and not report.file:
        return f"Capture {report.capture.capture_id}{service}"
    if report.spike is not None:
        return f"Spike {report.spike.spike_id}{service}, {report.spike.request.route}"
    return report.file or "Report"


def verdict(report: Report) -> str:
    """Return the verdict with its reason, and how many findings there are."""
    diagnosis = report.diagnosis
    if diagnosis.verdict is Verdict.FINDINGS:
        many = ", the one that would gain most first" if len(diagnosis.findings) > 1 else ""
        said = plural(len(diagnosis.findings), "finding") + many
    else:
        said = VERDICTS[diagnosis.verdict]
    return f"{said}. {diagnosis.reason}" if diagnosis.reason else f"{said}."


def facts(report: Report) -> list[tuple[str, str]]:
    """Return what stands above the findings, as labels and texts."""
    lines: list[tuple[str, str]] = []
    if report.incident is not None:
        seen = report.incident
        first, last = when(seen.first_seen_unix_ns), when(seen.last_seen_unix_ns)
        lines.append(("seen", f"{plural(seen.count, 'time')}, first {first}, last {last}"))
    if report.spike is not None and report.account is not None:
        spent = report.account
        usual = f", usually {ms(spent.usual_ms)}" if spent.usual_ms else ""
        lines.append(("request", f"{report.spike.request.route} took {ms(spent.duration_ms)}{usual}"))
    if report.summary is not None:
        lines.append(("window", _window(report.summary)))
        if report.summary.device.present or report.summary.device.launches:
            lines.append(("device", device(report.summary.device)))
    if report.workload.inputs:
        lines.append(("inputs", ", ".join(report.workload.inputs)))
    if report.resource is not None:
        r = report.resource
        known = [f"{r.service} {r.service_version}".strip(), r.host, f"pid {r.pid}" if r.pid else ""]
        versions = [f"torch {r.torch}" if r.torch else "", f"CUDA {r.cuda}" if r.cuda else ""]
        lines.append(("service", ", ".join(part for part in (*known, *versions) if part)))
    return lines


def _window(summary: TraceSummary) -> str:
    window = summary.window
    if window.basis == "window":
        idle = any(caveat.code == IDLE for caveat in window.caveats)
        return f"{ms(window.duration_ms)}, {'no request served in it' if idle else 'no requests marked in it'}"
    name = NOUNS.get(window.basis, "request")
    cut = f", {window.requests_cut} cut at the edges" if window.requests_cut else ""
    served = Evidence(summary=summary)
    of = f" of {served.main[0].route}" if len(served.routes) > 1 else ""
    median = f"{'it' if window.requests == 1 else f'the median{of}'} takes {ms(summary.request_p50_ms)}"
    if window.untraced_factor < HARDLY_SLOWED:
        median += f" traced, about {ms(summary.request_p50_ms * window.untraced_factor)} without the profiler"
    elif window.untraced_factor == 1.0:
        median += " traced"
    return f"{plural(window.requests, name)} in {ms(window.duration_ms)}{cut}; {median}"


def device(facts: DeviceFacts) -> str:
    """Return one line on the device: busy share, kernels, launches, waits, copies; what is missing is said."""
    name = f"{' and '.join(dict.fromkeys(facts.names))}: " if facts.names else ""
    launches = facts.launches + facts.graph_launches
    if not facts.kernels:
        return f"{name}{plural(launches, 'launch')}, but no kernel was recorded: nothing is known of the device"
    whole = facts.busy_ms + facts.idle_ms
    small = percent(facts.small_kernels / facts.kernels)
    parts = [
        f"busy {percent(facts.busy_ms / whole)} of {ms(whole)}" if whole else "",
        f"{plural(facts.kernels, 'kernel')} ({small} under 10 us)",
        plural(launches, "launch") if launches else "",
        plural(facts.syncs, "sync") if facts.syncs else "",
        plural(facts.copies, "copy") if facts.copies else "",
    ]
    return name + ", ".join(part for part in parts if part)


def where(site: Site | None) -> str:
    """Return the place with how it is known; "" where no place is known."""
    if site is None or not (site.file or site.function):
        return ""
    how = HOW.get(site.how, "")
    if site.exact and site.line > 0:
        place = " in ".join(part for part in (f"{site.file}:{site.line}", site.function) if part)
        return f"{place} ({how})" if how else place
    place = " in ".join(part for part in (site.function, site.file) if part)
    if site.how == "sample":
        return f"{place} ({f'near line {site.line}; ' if site.line > 0 else ''}no stack sample fell on the line itself)"
    starts = f"starts at line {site.line}" if site.line > 0 else ""
    known = "; ".join(part for part in (starts, how) if part)
    return f"{place} ({known})" if known else place


def costs(finding: Finding, report: Report) -> str:
    """Return what the cause costs, of how much, and whom."""
    name = noun(report)
    share = f" ({percent(finding.share_of_request)} of it)" if finding.share_of_request else ""
    text = f"{ms(finding.per_request_ms)} per {name}{share}"
    if report.summary is None or report.spike is not None or name == "window":
        return text
    whole = max(Evidence(summary=report.summary).count_of(finding.route), finding.requests_affected)
    of = f" of {finding.route}" if finding.route else ""
    if finding.requests_affected < whole:
        return f"{ms(finding.per_request_ms)} per affected {name}{share}, {finding.requests_affected} of {whole}{of}"
    return f"{text}, all {whole}{of or ' of them'}" if whole > 1 else text


def gains(finding: Finding, report: Report) -> str:
    """Return what removing the cause would gain."""
    if finding.kind is Kind.COLLECTIVE_WAIT and finding.recoverable_ms <= 0:
        return "not known from one rank's trace"
    if finding.share_of_request <= 0 or finding.per_request_ms <= 0:
        return f"{ms(finding.recoverable_ms)}, if it were gone"
    share = finding.recoverable_ms * finding.share_of_request / finding.per_request_ms
    return f"{ms(finding.recoverable_ms)} ({percent(share)} of the {noun(report)}), if it were gone"


def note(finding: Finding) -> str:
    """Return one line on a finding that is only a note, with what it would gain where that is little, yet something."""
    line = f"{finding.kind.value}: {finding.title}"
    small = finding.recoverable_ms * finding.share_of_request < NOTE_SHARE * finding.per_request_ms
    less = ms(finding.recoverable_ms)
    return f"{line} (without it: {less} less)" if small and less != NOTHING else line


def graph(finding: Finding) -> str:
    """Return what is said of a CUDA graph; "" where nothing is."""
    candidate = finding.graph_candidate
    if candidate is None:
        return ""
    if candidate.suitable:
        return f"could be captured ({candidate.reason}); predicted {ms(candidate.predicted_ms)} per request"
    captured = f"; captured, it would take about {ms(candidate.predicted_ms)}" if candidate.predicted_ms > 0 else ""
    return f"not as it stands: {candidate.reason}{captured}"


def timeline_heading(summary: TraceSummary) -> str:
    """Return what the picture shows."""
    drawn = summary.timeline
    what = NOUNS.get(summary.window.basis, "request")
    name = "window" if what == "window" else f"slowest {what}"
    return f"Timeline of the {name}: {ms(drawn.duration_ms)} traced, from {ms(drawn.start_ms)} on"


def when(unix_ns: int) -> str:
    """Return a moment as local date and time with its zone."""
    return datetime.fromtimestamp(unix_ns / 1e9, tz=timezone.utc).astimezone().strftime("%Y-%m-%d %H:%M:%S %Z")


def ago(unix_ns: int, now_unix_ns: int) -> str:
    """Return how long ago a moment was: ``12 s ago``, ``3 min ago``, ``5 h ago``, ``2 d ago``."""
    seconds = max(now_unix_ns - unix_ns, 0) / 1e9
    for limit, divisor, unit in ((120, 1, "s"), (7200, 60, "min"), (172_800, 3600, "h")):
        if seconds < limit:
            return f"{seconds / divisor:.0f} {unit} ago"
    return f"{seconds / 86_400:.0f} d ago"
