"""Pages written to disk."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from midwatch_client.commands.common import progress
from midwatch_client.errors import Failure

if TYPE_CHECKING:
    from midwatch_server.diagnosis import Report
    from midwatch_server.diagnosis.ranks import World


def save_page(path: Path, reports: Sequence[Report], world: World | None = None) -> None:
    """Write reports as one HTML page to ``path``, and say so; a file is left only when it is whole.

    Raises:
        Failure: The path cannot be written.
    """
    from midwatch_server.diagnosis import words

    from midwatch_client.render.html import to_html

    page = to_html(reports, world).encode("utf-8", "replace")
    part = path.with_name(path.name + ".part")
    try:
        part.write_bytes(page)
        part.replace(path)
    except OSError as error:
        raise Failure(f"cannot write {path} ({error.strerror}); name another file with --html") from None
    finally:
        part.unlink(missing_ok=True)
    progress(f"wrote {path} ({words.size(len(page))})")
