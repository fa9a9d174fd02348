"""`midwatch trace`: the raw trace of a capture, for Perfetto or `midwatch analyze`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from midwatch_client.commands.common import DEFAULT_COLLECTOR, CollectorOption, Failure, JsonFlag, print_json, progress

if TYPE_CHECKING:
    from midwatch_client.api import Client


def trace(
    capture_id: Annotated[
        str, typer.Argument(metavar="ID", help="A capture, or an incident that has one; a prefix will do.")
    ],
    output: Annotated[
        Path, typer.Option("-o", "--output", metavar="FILE", help="Where to write it, such as trace.json.gz.")
    ],
    collector: CollectorOption = DEFAULT_COLLECTOR,
    json_: JsonFlag = False,
) -> None:
    """Fetch the raw trace of a capture.

    Perfetto (ui.perfetto.dev) and `midwatch analyze` read the file.
    """
    from midwatch_client.api import Client, NotFoundError

    with Client(collector) as client:
        try:
            size = save(client, capture_id, output)
        except NotFoundError as not_a_capture:
            try:
                capture = client.incident(capture_id).capture
            except NotFoundError:
                raise not_a_capture from None
            if capture is None:
                raise Failure(
                    f"incident {capture_id} was seen without a window, so it has no trace; `midwatch profile` takes one"
                ) from None
            size = save(client, capture.capture_id, output)
    if json_:
        print_json({"schema": "midwatch.trace.v1", "path": str(output), "bytes": size})
    else:
        progress(wrote(output, size))


def wrote(output: Path, size: int) -> str:
    """What to say of a trace of ``size`` bytes that was written."""
    from midwatch_server.diagnosis import words

    return f"wrote {output} ({words.size(size)})"


def save(client: Client, capture_id: str, output: Path) -> int:
    """Write the trace to ``output`` and return its size in bytes; a path that cannot be written is a `Failure`."""
    try:
        return client.trace(capture_id, output)
    except OSError as error:
        raise Failure(f"cannot write {output} ({error.strerror}); name another file with -o") from None
