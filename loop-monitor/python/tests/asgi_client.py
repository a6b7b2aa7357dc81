"""Drives an ASGI application without a server, and a clock that only moves when it is told to."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from unstall.asgi import ASGIApp, Message, Scope

T = TypeVar("T")


@dataclass
class Clock:
    """Stands still while code runs, so that a test says how long everything takes."""

    now_ns: int = 1_000_000_000

    def __call__(self) -> int:
        return self.now_ns

    def advance_ms(self, ms: float) -> None:
        self.now_ns += round(ms * 1e6)


@dataclass
class Answer:
    """What an application sent."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def text(self) -> str:
        return self.body.decode()


def scope_of(path: str, method: str = "GET", **more: Any) -> Scope:
    scope: dict[str, Any] = {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "scheme": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [],
        "client": ("127.0.0.1", 50_000),
        "server": ("127.0.0.1", 80),
    }
    return scope | more


async def request(app: ASGIApp, path: str, method: str = "GET", **more: Any) -> Answer:
    answer = Answer()

    async def receive() -> Message:
        await asyncio.sleep(0)
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            answer.status = message["status"]
            answer.headers = {
                name.decode().lower(): value.decode() for name, value in message["headers"]
            }
        else:
            answer.body += message["body"]

    await app(scope_of(path, method, **more), receive, send)
    return answer


def ask(app: ASGIApp, path: str, method: str = "GET", **more: Any) -> Answer:
    return asyncio.run(request(app, path, method, **more))


def run(main: Callable[[], Coroutine[Any, Any, T]]) -> T:
    return asyncio.run(main())


def application(handler: Callable[[], Awaitable[None]], route: str = "/x") -> ASGIApp:
    """Make an application whose one route is known at once, as a framework would leave it."""

    async def app(scope: Scope, receive: Any, send: Any) -> None:  # noqa: ARG001
        scope["route"] = Route(route)
        await handler()

    return app


class Route:
    """What a framework's route shows."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.endpoint = self
