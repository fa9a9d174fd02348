"""Real Starlette applications, called through httpx."""

import asyncio
import gc
import weakref

import httpx
import pytest
from midwatch import request
from midwatch.integrations.all import Integrations
from midwatch.integrations.asgi import MidwatchMiddleware
from midwatch.model.status import Part
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.concurrency import run_in_threadpool
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Mount, Route

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


async def rank(request_):
    with request("inner"):
        return PlainTextResponse("ranked")


async def stream(request_):
    async def body():
        for _ in range(3):
            await asyncio.sleep(0.03)
            yield b"x"

    return StreamingResponse(body())


async def background(request_):
    return PlainTextResponse("later", background=BackgroundTask(asyncio.sleep, 0.3))


def plain(request_):
    return PlainTextResponse("from a thread")


async def fails(request_):
    raise LookupError("lost")


async def unavailable(request_):
    return PlainTextResponse("no", status_code=503)


async def slow(request_):
    request_.app.state.began.set()
    await asyncio.sleep(60)


class Through(BaseHTTPMiddleware):
    async def dispatch(self, request_, call_next):
        return await call_next(request_)


def application(*, middleware=()):
    routes = [
        Route("/rank/{user:int}", rank),
        Route("/stream", stream),
        Route("/background", background),
        Route("/plain", plain),
        Route("/fails", fails),
        Route("/unavailable", unavailable),
        Route("/slow", slow),
    ]
    return Starlette(
        routes=[*routes, Mount("/v2", routes=[Mount("/deep", routes=routes)])],
        middleware=[Middleware(kind) for kind in middleware],
    )


@pytest.fixture
def starlette(hooks):
    integrations = Integrations(hooks)
    integrations.start()
    yield integrations
    integrations.stop()


async def get(app, path, **rest):
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://service") as client:
        return await client.get(path, **rest)


def served(tracker):
    return [(mark.route.name, mark.status) for mark in tracker.drain()]


@pytest.mark.usefixtures("starlette")
class TestStarlette:
    async def test_the_route_is_the_template(self, tracker):
        app = application()
        assert (await get(app, "/rank/7?secret=1")).text == "ranked"
        await get(app, "/v2/deep/rank/8")
        await get(app, "/plain")
        assert served(tracker) == [
            ("GET /rank/{user}", "ok"),
            ("GET /v2/deep/rank/{user}", "ok"),
            ("GET /plain", "ok"),
        ]

    async def test_through_a_middleware_that_runs_the_application_in_another_task(self, tracker):
        await get(application(middleware=[Through]), "/rank/7")
        assert served(tracker) == [("GET /rank/{user}", "ok")]
        assert tracker.count() == 0

    async def test_a_path_that_no_route_knows_stays_inside(self, tracker):
        assert (await get(application(), "/users/alice@example.com")).status_code == 404
        assert served(tracker) == [("GET (no route)", "ok")]

    async def test_errors(self, tracker):
        app = application()
        assert (await get(app, "/fails")).status_code == 500
        assert (await get(app, "/unavailable")).status_code == 503
        assert served(tracker) == [("GET /fails", "error"), ("GET /unavailable", "error")]

    async def test_a_streamed_body_belongs_to_the_request_and_a_background_task_does_not(self, tracker):
        app = application()
        await get(app, "/stream")
        await get(app, "/background")
        streamed, later = tracker.drain()
        assert streamed.end_ns - streamed.start_ns > 80_000_000
        assert later.end_ns - later.start_ns < 250_000_000

    async def test_a_cancelled_request(self, tracker):
        app = application()
        app.state.began = asyncio.Event()
        task = asyncio.create_task(get(app, "/slow"))
        await app.state.began.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert served(tracker) == [("GET /slow", "cancelled")]

    async def test_the_trace_id_comes_from_the_caller(self, tracker):
        app = application()
        await get(app, "/rank/7", headers={"traceparent": f"00-{TRACE}-00f067aa0ba902b7-01"})
        await get(app, "/rank/7", headers={"traceparent": "nonsense"})
        with_trace, without = tracker.drain()
        assert with_trace.extra.trace_id == TRACE
        assert without.extra is None

    async def test_a_units_thread_knows_the_request(self, tracker):
        seen = []

        async def handler(request_):
            seen.append(await run_in_threadpool(tracker.current))
            return PlainTextResponse("done")

        await get(Starlette(routes=[Route("/", handler)]), "/")
        (mark,) = tracker.drain()
        assert [known.request_id for known in seen] == [mark.request_id]

    async def test_the_deadline_of_the_route_holds(self, tracker):
        tracker.route("GET /plain").limit_ns = 1
        await get(application(), "/plain")
        assert tracker.on_overdue.is_set()

    async def test_with_our_middleware_beside_it_a_request_counts_once(self, tracker):
        await get(MidwatchMiddleware(application()), "/rank/7")
        assert served(tracker) == [("GET /rank/{user}", "ok")]

    async def test_many_at_once(self, tracker):
        app = application()
        await asyncio.gather(*(get(app, "/stream") for _ in range(20)))
        marks = tracker.drain()
        assert len(marks) == 20
        assert {mark.status for mark in marks} == {"ok"}
        assert tracker.count() == 0


def test_after_the_stop_starlette_is_as_it_was(hooks):
    before = Starlette.__call__, Route.handle, Mount.handle
    integrations = Integrations(hooks)
    integrations.start()
    assert integrations.status()[0].state == "on"
    assert Starlette.__call__ is not before[0]
    integrations.stop()
    assert (Starlette.__call__, Route.handle, Mount.handle) == before


def test_an_integration_can_be_switched_off(hooks):
    before = Starlette.__call__
    integrations = Integrations(hooks, ["starlette"])
    integrations.start()
    assert integrations.status() == [Part("integration.starlette", "off", "switched off (integrations_off)")]
    assert Starlette.__call__ is before


class TestAnyApplication:
    async def bare(self, scope, receive, send):
        scope["endpoint"] = self.bare if scope["path"] == "/named" else None
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"ok"})

    async def test_requests_are_named_by_their_endpoint_or_not_at_all(self, tracker):
        app = MidwatchMiddleware(self.bare)
        await get(app, "/named")
        await get(app, "/users/alice")
        assert served(tracker) == [("GET TestAnyApplication.bare", "ok"), ("GET (no route)", "ok")]

    async def test_other_connections_pass(self, tracker):
        seen = []

        async def app(scope, receive, send):
            seen.append(scope["type"])

        await MidwatchMiddleware(app)({"type": "lifespan"}, None, None)
        await MidwatchMiddleware(app)({"type": "websocket"}, None, None)
        assert seen == ["lifespan", "websocket"]
        assert served(tracker) == []

    async def test_an_application_that_fails_fails_as_before(self, tracker):
        async def app(scope, receive, send):
            raise LookupError("lost")

        with pytest.raises(LookupError):
            await MidwatchMiddleware(app)({"type": "http", "method": "GET"}, None, None)
        assert served(tracker) == [("GET (no route)", "error")]

    async def test_without_an_agent_it_is_transparent(self):
        assert (await get(MidwatchMiddleware(self.bare), "/x")).text == "ok"

    async def test_what_a_client_calls_a_method_is_no_part_of_the_route(self, tracker):
        app = MidwatchMiddleware(self.bare)
        for method in ("GET", "SECRET-7", "get"):
            await self.call(app, "/named", method=method)
        assert [route for route, _ in served(tracker)] == [
            "GET TestAnyApplication.bare", "_OTHER TestAnyApplication.bare", "_OTHER TestAnyApplication.bare"
        ]  # fmt: skip

    async def test_a_request_that_has_ended_leaves_no_work_for_the_collector(self, tracker):
        class State:
            pass

        gc.collect()
        gc.disable()
        try:
            state = State()
            gone = weakref.ref(state)
            await self.call(MidwatchMiddleware(self.bare), "/", state=state)
            del state
            assert gone() is None
        finally:
            gc.enable()

    async def call(self, app, path, **scope):
        async def receive():
            return {"type": "http.request"}

        async def send(_message):
            return None

        await app({"type": "http", "path": path, "method": "GET", "headers": [], **scope}, receive, send)
