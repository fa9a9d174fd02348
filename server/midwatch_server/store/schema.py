"""The tables. Values with an inside of their own are kept as their protobuf messages (`midwatch.wire`).

Columns beside such a blob are those that questions filter and sort by. Times are Unix nanoseconds, as in the model.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    UniqueConstraint,
)

metadata = MetaData(
    naming_convention={
        "ix": "ix_%(table_name)s_%(column_0_N_name)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_N_name)s",
        "pk": "pk_%(table_name)s",
    }
)


def _text(name: str, *, key: bool = False) -> Column[str]:
    return Column(name, Text, primary_key=key, nullable=False)


def _int(name: str, *, key: bool = False) -> Column[int]:
    return Column(name, BigInteger, primary_key=key, nullable=False)


def _real(name: str) -> Column[float]:
    return Column(name, Double, nullable=False)


def _blob(name: str, *, nullable: bool = False) -> Column[bytes]:
    return Column(name, LargeBinary, nullable=nullable)


def _row_id() -> Column[int]:
    """A number of its own for rows that nobody asks for by name; SQLite counts only `INTEGER` up by itself."""
    return Column("row_id", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True)


agents = Table(
    "agents",
    metadata,
    _text("agent_id", key=True),
    _text("service"),
    _text("host"),
    _int("pid"),
    _int("first_seen_unix_ns"),
    _int("last_seen_unix_ns"),
    _blob("resource"),
    _int("status_unix_ns"),
    _blob("status", nullable=True),
    Index(None, "service", "last_seen_unix_ns"),
)
"""Every process that ever was heard of, with its latest status."""

batches = Table(
    "batches",
    metadata,
    _text("agent_id", key=True),
    _text("batch_id", key=True),
    _int("received_unix_ns"),
    _int("records"),
    _int("rejected_records"),
    _text("reason"),
    sqlite_with_rowid=False,
)
"""Batches that are stored: what makes sending one twice harmless."""

route_stats = Table(
    "route_stats",
    metadata,
    _row_id(),
    _text("agent_id"),
    _text("service"),
    _text("route"),
    _int("start_unix_ns"),
    _int("end_unix_ns"),
    _int("requests"),
    _int("errors"),
    _int("warmup"),
    _int("spikes"),
    _int("gc_ns"),
    _blob("sketch"),
    Index(None, "service", "route", "end_unix_ns"),
)
"""What routes did, interval by interval."""

gpu_samples = Table(
    "gpu_samples",
    metadata,
    _row_id(),
    _text("agent_id"),
    _int("unix_ns"),
    _int("device"),
    _real("utilization"),
    _int("memory_used_bytes"),
    _real("power_w"),
    _int("sm_clock_mhz"),
    _int("temperature_c"),
    _text("throttle_reasons"),
    _int("other_processes"),
    Index(None, "agent_id", "unix_ns"),
)
"""Device readings; reasons are separated by blanks."""

host_samples = Table(
    "host_samples",
    metadata,
    _row_id(),
    _text("agent_id"),
    _int("unix_ns"),
    _int("interval_ns"),
    _int("cpu_ns"),
    _int("rss_bytes"),
    _int("threads"),
    _int("voluntary_switches"),
    _int("involuntary_switches"),
    _int("major_faults"),
    _int("throttled_ns"),
    _real("cpu_quota"),
    _int("alloc_retries"),
    _int("device_allocs"),
    _int("device_frees"),
    Index(None, "agent_id", "unix_ns"),
)
"""Process and host readings."""

spikes = Table(
    "spikes",
    metadata,
    _text("spike_id", key=True),
    _text("agent_id"),
    _text("service"),
    _text("route"),
    _int("start_unix_ns"),
    _text("capture_id"),
    Column("explained", Boolean, nullable=False),
    _blob("spike"),
    _blob("evidence"),
    _blob("diagnosis"),
    Index(None, "service", "start_unix_ns"),
    Index(None, "start_unix_ns"),
)
"""Spikes; ``evidence`` is the whole one, ``spike`` is light, for lists. ``explained``: there is a finding."""

captures = Table(
    "captures",
    metadata,
    _text("capture_id", key=True),
    _text("agent_id"),
    _text("service"),
    _text("route"),
    _text("state"),
    _text("spike_id"),
    _int("start_unix_ns"),
    _blob("capture"),
    _blob("summary", nullable=True),
    _blob("diagnosis"),
    Index(None, "service", "start_unix_ns"),
    Index(None, "start_unix_ns"),
)
"""Captures; ``capture`` is without the summary, for lists."""

raw_traces = Table(
    "raw_traces",
    metadata,
    _text("capture_id", key=True),
    _text("agent_id"),
    _int("bytes"),
    _int("stored_unix_ns"),
)
"""Raw traces that are complete; the files lie beside the database."""

incidents = Table(
    "incidents",
    metadata,
    _text("incident_id", key=True),
    _text("fingerprint"),
    _text("service"),
    _text("route"),
    _text("kind"),
    _text("title"),
    _int("count"),
    _int("first_seen_unix_ns"),
    _int("last_seen_unix_ns"),
    _text("service_version"),
    _blob("latest"),
    UniqueConstraint("fingerprint"),
    Index(None, "service", "last_seen_unix_ns"),
    Index(None, "last_seen_unix_ns"),
)
"""Groups of findings with one fingerprint."""

occurrences = Table(
    "occurrences",
    metadata,
    _text("occurrence_id", key=True),
    Column("incident_id", Text, ForeignKey("incidents.incident_id"), nullable=False),
    _text("sighting"),
    _int("unix_ns"),
    _text("agent_id"),
    _text("spike_id"),
    _text("capture_id"),
    _blob("finding"),
    UniqueConstraint("incident_id", "sighting"),
    Index(None, "incident_id", "unix_ns"),
)
"""Sightings of incidents; ``sighting`` is the spike or capture that counts as one (`midwatch_server.incidents`)."""
