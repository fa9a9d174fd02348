"""What makes two findings the same trouble: service, route, kind, module path and function; never the line.

Lines move with every edit above them, and a fix in the same function shows in the figures. The version stands in front,
so that a better rule can live beside the groups of an older one.
"""

from __future__ import annotations

import hashlib

from midwatch.model.finding import Finding

VERSION = "v1"


def fingerprint(service: str, route: str, finding: Finding) -> str:
    """Return ``v1:`` and 32 hexadecimal digits."""
    site = finding.site
    module = ""
    if site is not None:
        # A program's main file goes by one name only, that of the file.
        module = site.file if site.module in ("", "__main__") else site.module
    parts = (service, route, finding.kind.value, module, site.function if site else "")
    digest = hashlib.sha256("\0".join(parts).encode("utf-8", "replace")).hexdigest()
    return f"{VERSION}:{digest[:32]}"


def incident_id(of: str) -> str:
    """Return the id of the incident with the fingerprint ``of``: 12 hexadecimal digits, the same in every collector."""
    return hashlib.sha256(of.encode("ascii")).hexdigest()[:12]
