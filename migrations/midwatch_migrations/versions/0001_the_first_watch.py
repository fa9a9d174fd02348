"""The first watch."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "agents",
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("service", sa.Text(), nullable=False),
        sa.Column("host", sa.Text(), nullable=False),
        sa.Column("pid", sa.BigInteger(), nullable=False),
        sa.Column("first_seen_unix_ns", sa.BigInteger(), nullable=False),
        sa.Column("last_seen_unix_ns", sa.BigInteger(), nullable=False),
        sa.Column("resource", sa.LargeBinary(), nullable=False),
        sa.Column("status_unix_ns", sa.BigInteger(), nullable=False),
        sa.Column("status", sa.LargeBinary(), nullable=True),
        sa.PrimaryKeyConstraint("agent_id", name=op.f("pk_agents")),
    )
    op.create_index(op.f("ix_agents_service_last_seen_unix_ns"), "agents", ["service", "last_seen_unix_ns"])
    op.create_table(
        "batches",
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("batch_id", sa.Text(), nullable=False),
        sa.Column("received_unix_ns", sa.BigInteger(), nullable=False),
        sa.Column("records", sa.BigInteger(), nullable=False),
        sa.Column("rejected_records", sa.BigInteger(), nullable=False),
        sa.Column("reason", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("agent_id", "batch_id", name=op.f("pk_batches")),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "captures",
        sa.Column("capture_id", sa.Text(), nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("service", sa.Text(), nullable=False),
        sa.Column("route", sa.Text(), nullable=False),
        sa.Column("state", sa.Text(), nullable=False),
        sa.Column("spike_id", sa.Text(), nullable=False),
        sa.Column("start_unix_ns", sa.BigInteger(), nullable=False),
        sa.Column("capture", sa.LargeBinary(), nullable=False),
        sa.Column("summary", sa.LargeBinary(), nullable=True),
        sa.Column("diagnosis", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("capture_id", name=op.f("pk_captures")),
    )
    op.create_index(op.f("ix_captures_service_start_unix_ns"), "captures", ["service", "start_unix_ns"])
    op.create_index(op.f("ix_captures_start_unix_ns"), "captures", ["start_unix_ns"])
    op.create_table(
        "gpu_samples",
        sa.Column("row_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("unix_ns", sa.BigInteger(), nullable=False),
        sa.Column("device", sa.BigInteger(), nullable=False),
        sa.Column("utilization", sa.Double(), nullable=False),
        sa.Column("memory_used_bytes", sa.BigInteger(), nullable=False),
        sa.Column("power_w", sa.Double(), nullable=False),
        sa.Column("sm_clock_mhz", sa.BigInteger(), nullable=False),
        sa.Column("temperature_c", sa.BigInteger(), nullable=False),
        sa.Column("throttle_reasons", sa.Text(), nullable=False),
        sa.Column("other_processes", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("row_id", name=op.f("pk_gpu_samples")),
    )
    op.create_index(op.f("ix_gpu_samples_agent_id_unix_ns"), "gpu_samples", ["agent_id", "unix_ns"])
    op.create_table(
        "host_samples",
        sa.Column("row_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("unix_ns", sa.BigInteger(), nullable=False),
        sa.Column("interval_ns", sa.BigInteger(), nullable=False),
        sa.Column("cpu_ns", sa.BigInteger(), nullable=False),
        sa.Column("rss_bytes", sa.BigInteger(), nullable=False),
        sa.Column("threads", sa.BigInteger(), nullable=False),
        sa.Column("voluntary_switches", sa.BigInteger(), nullable=False),
        sa.Column("involuntary_switches", sa.BigInteger(), nullable=False),
        sa.Column("major_faults", sa.BigInteger(), nullable=False),
        sa.Column("throttled_ns", sa.BigInteger(), nullable=False),
        sa.Column("cpu_quota", sa.Double(), nullable=False),
        sa.Column("alloc_retries", sa.BigInteger(), nullable=False),
        sa.Column("device_allocs", sa.BigInteger(), nullable=False),
        sa.Column("device_frees", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("row_id", name=op.f("pk_host_samples")),
    )
    op.create_index(op.f("ix_host_samples_agent_id_unix_ns"), "host_samples", ["agent_id", "unix_ns"])
    op.create_table(
        "incidents",
        sa.Column("incident_id", sa.Text(), nullable=False),
        sa.Column("fingerprint", sa.Text(), nullable=False),
        sa.Column("service", sa.Text(), nullable=False),
        sa.Column("route", sa.Text(), nullable=False),
        sa.Column("kind", sa.Text(), nullable=False),
        sa.Column("title", sa.Text(), nullable=False),
        sa.Column("count", sa.BigInteger(), nullable=False),
        sa.Column("first_seen_unix_ns", sa.BigInteger(), nullable=False),
        sa.Column("last_seen_unix_ns", sa.BigInteger(), nullable=False),
        sa.Column("service_version", sa.Text(), nullable=False),
        sa.Column("latest", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("incident_id", name=op.f("pk_incidents")),
        sa.UniqueConstraint("fingerprint", name=op.f("uq_incidents_fingerprint")),
    )
    op.create_index(op.f("ix_incidents_last_seen_unix_ns"), "incidents", ["last_seen_unix_ns"])
    op.create_index(op.f("ix_incidents_service_last_seen_unix_ns"), "incidents", ["service", "last_seen_unix_ns"])
    op.create_table(
        "raw_traces",
        sa.Column("capture_id", sa.Text(), nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("bytes", sa.BigInteger(), nullable=False),
        sa.Column("stored_unix_ns", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("capture_id", name=op.f("pk_raw_traces")),
    )
    op.create_table(
        "route_stats",
        sa.Column("row_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), autoincrement=True, nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("service", sa.Text(), nullable=False),
        sa.Column("route", sa.Text(), nullable=False),
        sa.Column("start_unix_ns", sa.BigInteger(), nullable=False),
        sa.Column("end_unix_ns", sa.BigInteger(), nullable=False),
        sa.Column("requests", sa.BigInteger(), nullable=False),
        sa.Column("errors", sa.BigInteger(), nullable=False),
        sa.Column("warmup", sa.BigInteger(), nullable=False),
        sa.Column("spikes", sa.BigInteger(), nullable=False),
        sa.Column("gc_ns", sa.BigInteger(), nullable=False),
        sa.Column("sketch", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("row_id", name=op.f("pk_route_stats")),
    )
    op.create_index(
        op.f("ix_route_stats_service_route_end_unix_ns"), "route_stats", ["service", "route", "end_unix_ns"]
    )
    op.create_table(
        "spikes",
        sa.Column("spike_id", sa.Text(), nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("service", sa.Text(), nullable=False),
        sa.Column("route", sa.Text(), nullable=False),
        sa.Column("start_unix_ns", sa.BigInteger(), nullable=False),
        sa.Column("capture_id", sa.Text(), nullable=False),
        sa.Column("explained", sa.Boolean(), nullable=False),
        sa.Column("spike", sa.LargeBinary(), nullable=False),
        sa.Column("evidence", sa.LargeBinary(), nullable=False),
        sa.Column("diagnosis", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("spike_id", name=op.f("pk_spikes")),
    )
    op.create_index(op.f("ix_spikes_service_start_unix_ns"), "spikes", ["service", "start_unix_ns"])
    op.create_index(op.f("ix_spikes_start_unix_ns"), "spikes", ["start_unix_ns"])
    op.create_table(
        "occurrences",
        sa.Column("occurrence_id", sa.Text(), nullable=False),
        sa.Column("incident_id", sa.Text(), nullable=False),
        sa.Column("sighting", sa.Text(), nullable=False),
        sa.Column("unix_ns", sa.BigInteger(), nullable=False),
        sa.Column("agent_id", sa.Text(), nullable=False),
        sa.Column("spike_id", sa.Text(), nullable=False),
        sa.Column("capture_id", sa.Text(), nullable=False),
        sa.Column("finding", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(["incident_id"], ["incidents.incident_id"], name=op.f("fk_occurrences_incident_id")),
        sa.PrimaryKeyConstraint("occurrence_id", name=op.f("pk_occurrences")),
        sa.UniqueConstraint("incident_id", "sighting", name=op.f("uq_occurrences_incident_id_sighting")),
    )
    op.create_index(op.f("ix_occurrences_incident_id_unix_ns"), "occurrences", ["incident_id", "unix_ns"])


def downgrade() -> None:
    op.drop_table("occurrences")
    op.drop_table("spikes")
    op.drop_table("route_stats")
    op.drop_table("raw_traces")
    op.drop_table("incidents")
    op.drop_table("host_samples")
    op.drop_table("gpu_samples")
    op.drop_table("captures")
    op.drop_table("batches")
    op.drop_table("agents")
