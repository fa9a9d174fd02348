"""What comes in is parsed and bounded before a service sees it, whichever call and service it comes by.

gRPC answers a message that does not parse as if the service had failed, with a traceback in the log for each. Here the
sender is told that it is the message, and the log gets a line a minute. What the sender said before, on the same
stream, is taken in and answered first.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import grpc
from google.protobuf.message import DecodeError

from midwatch_server.errors import BadRequestError, TooLongError
from midwatch_server.limits import bounded
from midwatch_server.rpc.errors import answered, log

LOG_EVERY_S = 60.0

_MAKERS: dict[tuple[bool, bool], tuple[str, Callable[..., Any]]] = {
    (False, False): ("unary_unary", grpc.unary_unary_rpc_method_handler),
    (False, True): ("unary_stream", grpc.unary_stream_rpc_method_handler),
    (True, False): ("stream_unary", grpc.stream_unary_rpc_method_handler),
    (True, True): ("stream_stream", grpc.stream_stream_rpc_method_handler),
}
"""By whether requests and responses are streams: the handler's attribute, and what makes such a handler."""


@dataclass(frozen=True, slots=True)
class Refused:
    """Stands where a message would, and says in one sentence why it does not."""

    sentence: str


class Refusals:
    """Logs the first message that is refused, then at most one a minute, with how many there were between."""

    def __init__(self, now_s: Callable[[], float] = time.monotonic) -> None:
        self._now_s = now_s
        self._logged_s = float("-inf")
        self._unsaid = 0

    def note(self, method: str, peer: str, refused: Refused) -> None:
        """Log that ``method`` refused a message of ``peer``'s, or count it for the next line."""
        now_s = self._now_s()
        if now_s - self._logged_s < LOG_EVERY_S:
            self._unsaid += 1
            return
        more = f" ({self._unsaid} more since the last such line)" if self._unsaid else ""
        log.warning("refused a message to %s from %s: %s%s", method, peer, refused.sentence, more)
        self._logged_s, self._unsaid = now_s, 0


class Gate(grpc.aio.ServerInterceptor):  # type: ignore[misc]
    """Stands before all services. Their methods must be coroutines, as those here are: streams are written."""

    def __init__(self, refusals: Refusals | None = None) -> None:
        self._refusals = refusals or Refusals()

    async def intercept_service(self, continuation: Callable[[Any], Awaitable[Any]], details: Any) -> Any:
        """Return the method's handler, with the gate before it."""
        handler = await continuation(details)
        if handler is None:
            return None
        name, make = _MAKERS[handler.request_streaming, handler.response_streaming]
        serve = self._after_stream if handler.request_streaming else self._after_one
        return make(
            serve(details.method, getattr(handler, name)),
            request_deserializer=_reader(handler.request_deserializer),
            response_serializer=handler.response_serializer,
        )

    def _after_one(self, method: str, serve: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def behaviour(request: Any, context: Any) -> Any:
            if isinstance(request, Refused):
                self._refusals.note(method, context.peer(), request)
                async with answered(context):
                    raise BadRequestError(request.sentence)
            return await serve(request, context)

        return behaviour

    def _after_stream(self, method: str, serve: Callable[..., Awaitable[Any]]) -> Callable[..., Awaitable[Any]]:
        async def behaviour(requests: Any, context: Any) -> Any:
            note = partial(self._refusals.note, method, context.peer())
            return await serve(_Understood(aiter(requests), note), context)

        return behaviour


class _Understood:
    """The messages of a stream up to the first that is refused, which raises `BadRequestError`."""

    def __init__(self, messages: AsyncIterator[Any], refused: Callable[[Refused], None]) -> None:
        self._messages = messages
        self._refused = refused

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Any:
        message = await anext(self._messages)
        if isinstance(message, Refused):
            self._refused(message)
            raise BadRequestError(message.sentence)
        return message


def _reader(parse: Callable[[bytes], Any]) -> Callable[[bytes], Any]:
    def read(data: bytes) -> Any:
        try:
            message = parse(data)
            bounded(message)
        except (DecodeError, ValueError):  # the latter for text that is no UTF-8, in protobuf without C
            return Refused("The message does not parse as this call's request; is the sender built for this collector?")
        except TooLongError as error:
            return Refused(f"{error}.")
        return message

    return read
