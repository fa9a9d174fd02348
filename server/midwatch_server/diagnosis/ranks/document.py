"""The ranks in the JSON document of several reports: the key ``ranks`` of ``midwatch.report.v1``."""

from __future__ import annotations

from typing import Any

from midwatch.model.plain import to_plain

from midwatch_server.diagnosis.ranks.values import World


def ranks_document(world: World) -> dict[str, Any]:
    """Return the comparison of ranks as dictionaries, lists and scalars."""
    plain: dict[str, Any] = to_plain(world)
    named = plain["straggler"]
    return {
        **plain,
        "rows": [_rounded(row) for row in plain["rows"]],
        "straggler": _rounded(named) if named is not None else None,
    }


def _rounded(flat: dict[str, Any]) -> dict[str, Any]:
    return {key: round(value, 4) if isinstance(value, float) else value for key, value in flat.items()}
