"""Errors on their way to a caller: a code and one sentence, never a traceback."""

from __future__ import annotations

import asyncio
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
    """Run the body of a call; what it raises ends the call with a code and a sentence.

    A caller that has hung up by then is told nothing, and the call is cancelled, as gRPC itself does a moment later.
    """
    try:
        try:
            yield
        except tuple(_CODES) as error:
            await context.abort(_CODES[type(error)], str(error))
    except grpc.aio.AbortError:
        raise
    except grpc.aio.InternalError:  # gRPC's word for what could not be sent
        raise asyncio.CancelledError from None
    except Exception:
        log.exception("a call failed")
        await context.abort(grpc.StatusCode.INTERNAL, "The collector failed on this call; its log says how.")
