"""Errors on their way to a caller: a code and one sentence, never a traceback."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc

from midwatch_server.errors import BadRequestError, BatchRejectedError, NotFoundError, StoreUnavailableError

log = logging.getLogger("midwatch.collector")

_CODES: dict[type[Exception], grpc.StatusCode] = {
    BadRequestError: grpc.StatusCode.INVALID_ARGUMENT,
    BatchRejectedError: grpc.StatusCode.INVALID_ARGUMENT,
    NotFoundError: grpc.StatusCode.NOT_FOUND,
    StoreUnavailableError: grpc.StatusCode.UNAVAILABLE,
}


@asynccontextmanager
async def answered(context: Any) -> AsyncIterator[None]:
    """Run the body of a call; what it raises ends the call with a code and a sentence."""
    try:
        yield
    except grpc.aio.AbortError:
        raise
    except tuple(_CODES) as error:
        await context.abort(_CODES[type(error)], str(error))
    except Exception:
        log.exception("a call failed")
        await context.abort(grpc.StatusCode.INTERNAL, "The collector failed on this call; its log says how.")
