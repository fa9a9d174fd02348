"""`midwatch profile`: a window now."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict

import typer

from midwatch_client.commands.common import (
    DEFAULT_COLLECTOR,
    CollectorOption,
    Failure,
    JsonFlag,
    print_json,
    progress,
    say,
)
from midwatch_client.commands.show import emit
from midwatch_client.commands.trace import save, wrote

if TYPE_CHECKING:
    from midwatch_client.api import Client, Progress

_WORDS = {
    "queued": "asked",
    "sent": "waiting for the window to open",
    "open": "window open, recording",
    "done": "reading the trace",
}


class Wanted(TypedDict):
    """Which agent, and what for."""

    host: str
    pid: int
    requests: int
    seconds: float
    deep: bool


def profile(
    service: Annotated[str, typer.Argument(help="The service, as `midwatch agents` calls it.")],
    host: Annotated[str, typer.Option("--host", help="Only an agent on this host.")] = "",
    pid: Annotated[int, typer.Option("--pid", help="Only the agent of this process.")] = 0,
    requests: Annotated[int | None, typer.Option("--requests", min=1, help="End after so many whole requests.")] = None,
    seconds: Annotated[float | None, typer.Option("--seconds", min=0.01, help="End after so long.")] = None,
    deep: Annotated[bool, typer.Option("--deep", help="Record operators and shapes too.")] = False,
    no_wait: Annotated[bool, typer.Option("--no-wait", help="Only order it; print the capture's id.")] = False,
    output: Annotated[
        Path | None, typer.Option("-o", "--output", metavar="FILE", help="Also write the raw trace.")
    ] = None,
    collector: CollectorOption = DEFAULT_COLLECTOR,
    json_: JsonFlag = False,
) -> None:
    """Profile a running service, and say what it shows.

    The service is not held up meanwhile. Without --requests and --seconds the agent chooses the length.
    """
    from midwatch_client.api import Client
    from midwatch_client.render.sources import of_capture

    if requests and seconds:
        raise Failure("give --requests or --seconds, not both", 2)
    if no_wait and output:
        raise Failure("--no-wait does not wait for the trace; fetch it later with `midwatch trace ID -o FILE`", 2)
    with Client(collector) as client:
        wanted = Wanted(host=host, pid=pid, requests=requests or 0, seconds=seconds or 0.0, deep=deep)
        if no_wait:
            _order(client, service, wanted, json_=json_)
            return
        detail = client.profile(service, **wanted, on_progress=_say)
        emit(of_capture(detail), json_=json_)
        if output:
            progress(wrote(output, save(client, detail.capture.capture_id, output)))


def _order(client: Client, service: str, wanted: Wanted, *, json_: bool) -> None:
    """Order a window, and leave as soon as the agent has the order: the capture comes all the same."""
    capture_id = ""
    for step in client.order(service, **wanted):
        capture_id = step.capture_id
        if step.state in ("refused", "failed"):
            raise Failure(step.detail or f"the window was {step.state}; try again")
        if step.state != "queued":
            break
    if json_:
        print_json({"schema": "midwatch.order.v1", "capture_id": capture_id})
    else:
        say(capture_id)


def _say(step: Progress) -> None:
    agent = step.agent
    where = f" {agent.service} on {agent.host}, pid {agent.pid}" if agent is not None and step.state == "queued" else ""
    if step.state in _WORDS:
        progress(f"{_WORDS[step.state]}{where} …")
