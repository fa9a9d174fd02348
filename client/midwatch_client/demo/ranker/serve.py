"""The HTTP service. ``python -m uvicorn midwatch_client.demo.ranker.serve:app`` is all there is to starting it."""

import midwatch.auto  # isort: skip  (the whole integration: this one line, before everything else)

import contextlib
from collections.abc import AsyncIterator

import torch
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from midwatch_client.demo.ranker.audit import AuditLog
from midwatch_client.demo.ranker.batcher import Batcher, Query
from midwatch_client.demo.ranker.catalog import Catalog
from midwatch_client.demo.ranker.meter import Meter


async def rank(request: Request) -> JSONResponse:
    """Rank the candidates of one user, in a batch with whoever else asks now."""
    query = Query(int(request.path_params["user"]), diverse="diverse" in request.query_params)
    return JSONResponse({"ranking": await request.app.state.batcher.rank(query)})


async def item(request: Request) -> JSONResponse:
    """Look one item up."""
    return JSONResponse(request.app.state.catalog.item(int(request.path_params["number"])))


async def click(request: Request) -> JSONResponse:
    """Take one click for the audit log."""
    request.app.state.audit.record(request.path_params["number"])
    return JSONResponse({"ok": True})


async def view(request: Request) -> JSONResponse:
    """Count one page view."""
    request.app.state.meter.count("view")
    return JSONResponse({"ok": True})


async def health(request: Request) -> JSONResponse:
    """Say that the service is up, and on what."""
    return JSONResponse({"ok": True, "device": request.app.state.device.type})


@contextlib.asynccontextmanager
async def lifespan(app: Starlette) -> AsyncIterator[None]:
    """Load what the service needs, on the GPU where there is one."""
    torch.set_num_threads(1)  # several small models on one machine: one thread each
    app.state.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    app.state.batcher = Batcher(app.state.device)
    app.state.catalog = Catalog()
    app.state.audit = AuditLog()
    app.state.meter = Meter()
    yield
    app.state.audit.close()


app = Starlette(
    lifespan=lifespan,
    routes=[
        Route("/rank/{user}", rank, methods=["POST"]),
        Route("/items/{number}", item),
        Route("/clicks/{number}", click, methods=["POST"]),
        Route("/views/{number}", view, methods=["POST"]),
        Route("/health", health),
    ],
)
