"""Never run, only type-checked: what a service may write, and what it gets."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator

import midwatch
import midwatch.auto
from midwatch.integrations.asgi import App, MidwatchMiddleware
from midwatch.model.status import AgentStatus

midwatch.start(
    service="ranker",
    collector="collector:7171",
    token="t",
    service_version="1.2",
    environment="production",
    engine="direct",
    slo_ms=50,
)


@midwatch.request("rank")
def rank(user: int, *, limit: int = 10) -> list[int]:
    midwatch.note(batch=limit, tokens=512)
    return [user]


@midwatch.request("rank")
async def rank_later(user: int) -> str:
    return str(user)


@midwatch.request("stream")
def stream() -> Iterator[int]:
    yield 1


@midwatch.request("stream")
async def stream_later() -> AsyncIterator[int]:
    yield 1


@midwatch.request
def bare(user: int) -> str:
    return str(user)


async def serve(app: App) -> None:
    with midwatch.request("rank"):
        ranked: list[int] = rank(1, limit=2)
    async with midwatch.request("rank"):
        later: str = await rank_later(1)
    first: int = next(iter(stream()))
    async for number in stream_later():
        first = number
    text: str = bare(1)
    wrapped: App = MidwatchMiddleware(app)
    midwatch.step()
    capture_id: str = midwatch.capture(seconds=0.2)
    capture_id = midwatch.capture(requests=20, deep=True)
    status: AgentStatus = midwatch.status()
    print(ranked, later, first, text, wrapped, capture_id, status.parts[0].detail)
    midwatch.stop()


rank("nobody")  # type: ignore[arg-type]
midwatch.capture(0.2)  # type: ignore[call-arg]
