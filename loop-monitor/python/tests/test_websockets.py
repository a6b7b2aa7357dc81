"""A WebSocket connection is counted like a request, and an idle one costs nothing."""

import asyncio
from typing import Any

from asgi_client import Clock, Route

from unstall import LoopMonitor
from unstall.asgi import Message, Receive, Scope, Send
from unstall.quart_routes import template_of


def scope_of(path: str) -> Scope:
    return {"type": "websocket", "path": path, "root_path": "", "headers": []}


class Connection:
    """A client that says what it says when a test lets it."""

    def __init__(self) -> None:
        self.messages: asyncio.Queue[Message] = asyncio.Queue()
        self.sent: list[Message] = []

    async def send(self, message: Message) -> None:
        self.sent.append(message)


def application(clock: Clock) -> Any:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"] = Route("/rooms/{name}")
        while (await receive())["type"] != "websocket.disconnect":
            clock.advance_ms(2)
            await send({"type": "websocket.send", "text": "heard"})

    return app


def test_its_steps_count_for_its_route_from_the_first_one_on(clock: Clock) -> None:
    monitor = LoopMonitor(application(clock))
    open_ones: list[int] = []

    async def main() -> None:
        connection = Connection()
        serving = asyncio.ensure_future(
            monitor(scope_of("/rooms/7"), connection.messages.get, connection.send)
        )
        for kind in ("connect", "receive", "receive"):
            connection.messages.put_nowait({"type": f"websocket.{kind}"})
            await asyncio.sleep(0.001)
        open_ones.append(monitor.snapshot()["endpoints"]["WEBSOCKET /rooms/{name}"]["requests"])
        connection.messages.put_nowait({"type": "websocket.disconnect"})
        await serving
        assert len(connection.sent) == 3

    asyncio.run(main())
    assert open_ones == [1]
    counts = monitor.snapshot()["endpoints"]["WEBSOCKET /rooms/{name}"]
    assert (counts["requests"], counts["hold_ns_sum"]) == (1, 6_000_000)
    assert counts["parts"]["handler"]["hold_ns_sum"] == 6_000_000


def test_an_idle_connection_does_not_wake_the_loop() -> None:
    asked: list[float] = []

    class Loop(asyncio.SelectorEventLoop):
        def call_later(self, delay: float, *args: Any, **more: Any) -> Any:  # type: ignore[override]
            asked.append(delay)
            return super().call_later(delay, *args, **more)

    monitor = LoopMonitor(application(Clock()))

    async def main() -> None:
        connection = Connection()
        serving = asyncio.ensure_future(
            monitor(scope_of("/rooms/7"), connection.messages.get, connection.send)
        )
        while not asked:
            await asyncio.sleep(0)
        loop = asyncio.get_running_loop()
        before = len(asked)
        resting = loop.create_future()
        loop.call_at(loop.time() + 0.3, resting.set_result, None)
        await resting
        assert len(asked) == before == 1, "one look at the lag for the step, and none for the rest"
        connection.messages.put_nowait({"type": "websocket.disconnect"})
        await serving

    loop = Loop()
    try:
        loop.run_until_complete(main())
    finally:
        loop.close()


def test_the_monitors_own_paths_are_no_sockets() -> None:
    seen: list[Scope] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG001
        seen.append(scope)

    connection = Connection()
    monitor = LoopMonitor(app)
    asyncio.run(monitor(scope_of("/__unstall/snapshot"), connection.messages.get, connection.send))
    assert [scope["path"] for scope in seen] == ["/__unstall/snapshot"]
    assert list(monitor.snapshot()["endpoints"]) == ["* (unmatched)"]


def test_rules_of_quart_are_written_like_other_templates() -> None:
    for rule, template in {
        "/": "/",
        "/users/<int:user_id>/files/<path:rest>": "/users/{user_id}/files/{rest}",
        "/<string(length=2):language>/x/<name>": "/{language}/x/{name}",
        "/<any(a, b):kind>": "/{kind}",
    }.items():
        assert template_of(rule) == template
