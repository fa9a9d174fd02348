"""How a collector is run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CollectorSettings:
    """Settings of one collector.

    ``db`` is a path of an SQLite file or ``sqlite:///`` and a path; raw traces lie beside it in ``<file>.d/traces``.
    ``grpc`` is ``host:port``; port 0 takes a free one.
    """

    db: str = "midwatch.db"
    grpc: str = "127.0.0.1:7171"
