"""Values to the rows of `midwatch_server.store.schema`."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from midwatch.model.capture import Capture
from midwatch.model.finding import Diagnosis
from midwatch.model.requests import RouteStats
from midwatch.model.resource import Resource
from midwatch.model.samples import GpuSample, HostSample
from midwatch.model.spike import Spike
from midwatch.model.status import AgentStatus
from midwatch.wire import dump

Row = dict[str, Any]


def agent_row(resource: Resource, status: AgentStatus | None, seen_unix_ns: int) -> Row:
    """The row of an agent that was heard of at ``seen_unix_ns``."""
    return {
        "agent_id": resource.agent_id,
        "service": resource.service,
        "host": resource.host,
        "pid": resource.pid,
        "first_seen_unix_ns": seen_unix_ns,
        "last_seen_unix_ns": seen_unix_ns,
        "resource": dump(resource),
        "status_unix_ns": status.unix_ns if status else 0,
        "status": dump(status) if status else None,
    }


def route_stats_row(stats: RouteStats, resource: Resource) -> Row:
    """The row of an interval of a route."""
    return {
        "agent_id": resource.agent_id,
        "service": resource.service,
        **_flat(stats, "sketch"),
        "sketch": dump(stats.sketch),
    }


def gpu_row(sample: GpuSample, resource: Resource) -> Row:
    """The row of a device reading."""
    return {
        "agent_id": resource.agent_id,
        **_flat(sample, "throttle_reasons"),
        "throttle_reasons": " ".join(sample.throttle_reasons),
    }


def host_row(sample: HostSample, resource: Resource) -> Row:
    """The row of a process and host reading."""
    return {"agent_id": resource.agent_id, **_flat(sample)}


def spike_row(spike: Spike, diagnosis: Diagnosis, resource: Resource) -> Row:
    """The row of a spike."""
    light = replace(spike, samples=(), gc=(), locks=(), compiles=(), units=(), gpu=(), host=())
    return {
        "spike_id": spike.spike_id,
        "agent_id": resource.agent_id,
        "service": resource.service,
        "route": spike.request.route,
        "start_unix_ns": spike.request.start_unix_ns,
        "capture_id": spike.capture_id,
        "explained": bool(diagnosis.findings),
        "spike": dump(light),
        "evidence": dump(spike),
        "diagnosis": dump(diagnosis),
    }


def capture_row(capture: Capture, diagnosis: Diagnosis, resource: Resource) -> Row:
    """The row of a capture."""
    return {
        "capture_id": capture.capture_id,
        "agent_id": resource.agent_id,
        "service": resource.service,
        "route": capture.route,
        "state": capture.state,
        "spike_id": capture.spike_id,
        "start_unix_ns": capture.start_unix_ns,
        "capture": dump(light_capture(capture)),
        "summary": dump(capture.summary) if capture.summary else None,
        "diagnosis": dump(diagnosis),
    }


def light_capture(capture: Capture) -> Capture:
    """Return the capture without its summary."""
    return replace(capture, summary=None)


def _flat(value: Any, *without: str) -> Row:
    """The scalar fields."""
    return {field.name: getattr(value, field.name) for field in fields(value) if field.name not in without}
