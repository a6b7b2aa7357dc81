"""Requests are counted under the template that served them, never under a path with an id."""

import asyncio
from typing import Any

import pytest
from asgi_client import ask, request
from fastapi import APIRouter, FastAPI
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Mount, Route

from unstall import LoopMonitor
from unstall.asgi import ASGIApp, Receive, Scope, Send


async def ok(request: Request) -> PlainTextResponse:  # noqa: ARG001
    return PlainTextResponse("ok")


def fastapi_app() -> FastAPI:
    app, inner, router = FastAPI(), FastAPI(), APIRouter(prefix="/teams")

    @app.get("/users/{user_id}")
    @router.get("/{team}/users/{user_id}")
    @inner.get("/deep/{number}")
    async def user() -> str:
        return "ok"

    app.add_route("/plain/{name}", ok)
    app.include_router(router, prefix="/api/{version}")
    app.mount("/sub", inner)
    app.mount("/tenants/{tenant}", inner)
    return app


def starlette_app() -> Starlette:
    return Starlette(
        routes=[
            Route("/users/{user_id:int}", ok),
            Route("/", ok),
            Mount("/tenants/{tenant}", routes=[Route("/users/{user_id}", ok), Route("/", ok)]),
            Mount("/nested/{a}", routes=[Mount("/{b}", routes=[Route("/c/{a}", ok)])]),
            Mount("/sub", app=fastapi_app()),
            Mount("/files/{kind}", app=PlainTextResponse("ok")),
        ]
    )


def counted(app: ASGIApp, path: str, method: str = "GET", **more: Any) -> str:
    monitor = LoopMonitor(app)
    ask(monitor, path, method, **more)
    [endpoint] = monitor.snapshot()["endpoints"]
    return endpoint


@pytest.mark.parametrize(
    ("path", "endpoint"),
    [
        ("/users/7", "GET /users/{user_id}"),
        ("/api/v1/teams/a/users/7", "GET /api/{version}/teams/{team}/users/{user_id}"),
        ("/plain/x", "GET /plain/{name}"),
        ("/openapi.json", "GET /openapi.json"),
        ("/sub/deep/7", "GET /sub/deep/{number}"),
        ("/tenants/acme/deep/7", "GET /tenants/{tenant}/deep/{number}"),
        ("/tenants/acme/nothing", "GET /tenants/{tenant}/{path}"),
        ("/nothing", "* (unmatched)"),
        ("/users/7/", "* (unmatched)"),
    ],
)
def test_fastapi(path: str, endpoint: str) -> None:
    assert counted(fastapi_app(), path) == endpoint


@pytest.mark.parametrize(
    ("path", "endpoint"),
    [
        ("/", "GET /"),
        ("/users/7", "GET /users/{user_id}"),
        ("/tenants/acme/users/7", "GET /tenants/{tenant}/users/{user_id}"),
        # A value that is also a literal of the path.
        ("/tenants/users/users/7", "GET /tenants/{tenant}/users/{user_id}"),
        ("/tenants/acme/", "GET /tenants/{tenant}/"),
        ("/sub/users/7", "GET /sub/users/{user_id}"),
        ("/sub/tenants/acme/deep/7", "GET /sub/tenants/{tenant}/deep/{number}"),
        ("/files/red/a/b/c", "GET /files/{kind}/{path}"),
        ("/nothing", "* (unmatched)"),
    ],
)
def test_starlette(path: str, endpoint: str) -> None:
    assert counted(starlette_app(), path) == endpoint


def test_a_wrong_method_counts_for_the_route_and_strange_methods_share_a_name() -> None:
    assert counted(fastapi_app(), "/users/7", "POST") == "POST /users/{user_id}"
    assert counted(fastapi_app(), "/users/7", "BREW") == "OTHER /users/{user_id}"


@pytest.mark.filterwarnings("ignore:The `root_path` parameter is deprecated")
def test_the_servers_root_path_is_no_part_of_the_route() -> None:
    app = fastapi_app()
    assert counted(app, "/api/users/7", root_path="/api") == "GET /users/{user_id}"
    path = "/api/tenants/acme/deep/7"
    assert counted(app, path, root_path="/api") == "GET /tenants/{tenant}/deep/{number}"
    assert counted(FastAPI(root_path="/api"), "/openapi.json") == "GET /openapi.json"


def test_it_works_as_the_frameworks_middleware() -> None:
    app = fastapi_app()
    app.add_middleware(LoopMonitor, token="open sesame")
    ask(app, "/users/7")
    token = [(b"authorization", b"Bearer open sesame")]
    answer = ask(app, "/__unstall/snapshot", headers=token)
    assert answer.status == 200
    assert '"GET /users/{user_id}"' in answer.text


def test_a_mount_waits_for_what_is_mounted() -> None:
    """A middleware of the mounted application may await before anything finds a route."""
    inner = fastapi_app()

    async def slow(scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.sleep(0)
        await inner(scope, receive, send)

    app = Starlette(routes=[Mount("/sub", app=slow)])
    assert counted(app, "/sub/users/7") == "GET /sub/users/{user_id}"


def test_endpoints_beyond_the_cap_share_one() -> None:
    app = Starlette(routes=[Route(f"/{name}", ok) for name in "abcd"])
    monitor = LoopMonitor(app, endpoints_max=2)

    async def main() -> None:
        for name in "abcda":
            await request(monitor, f"/{name}")

    asyncio.run(main())
    seen = {name: counts["requests"] for name, counts in monitor.snapshot()["endpoints"].items()}
    assert seen == {"GET /a": 2, "GET /b": 1, "* (other)": 2}


@pytest.mark.parametrize(
    "left",
    [
        {"route": object()},
        {"route": None, "endpoint": ok, "router": object()},
        {"fastapi": "mine", "path_params": None},
        {"app_root_path": "", "root_path": "/x", "path_params": None},
    ],
)
def test_what_other_frameworks_leave_in_the_scope_does_no_harm(left: dict[str, Any]) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        scope.update(left)
        await PlainTextResponse("ok")(scope, receive, send)

    monitor = LoopMonitor(app)
    assert ask(monitor, "/x").text == "ok"
    assert len(monitor.snapshot()["endpoints"]) == 1
