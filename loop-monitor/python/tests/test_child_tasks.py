"""The tasks that a request starts count for it, and are tasks as they would be without."""

import asyncio
import contextvars
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import uvloop
from asgi_client import Clock, application, ask, request, scope_of
from fastapi import BackgroundTasks, FastAPI
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import StreamingResponse

from unstall import LoopMonitor
from unstall.asgi import Message, Receive, Scope, Send
from unstall.child_tasks import current_account
from unstall.snapshot import EndpointCounters, SplitPartCounters

MS = 1_000_000
NEW_LOOPS = [asyncio.new_event_loop, uvloop.new_event_loop]


def counted(
    handler: Callable[[], Awaitable[None]],
    new_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop,
) -> EndpointCounters:
    """Serve one request on a loop, and give what was counted when the loop had nothing left."""
    monitor = LoopMonitor(application(handler), warn_over_ms=None)

    async def main() -> None:
        await request(monitor, "/x")
        others = asyncio.all_tasks() - {asyncio.current_task()}
        await asyncio.gather(*others, return_exceptions=True)

    loop = new_loop()
    try:
        loop.run_until_complete(main())
    finally:
        loop.close()
    return monitor.snapshot()["endpoints"]["GET /x"]


def parts_of(counts: EndpointCounters) -> dict[str, int]:
    """Milliseconds by part, of those that have any."""
    parts: dict[str, SplitPartCounters] = counts["parts"]
    held = {name: part["hold_ns_sum"] // MS for name, part in parts.items()}
    return {name: ms for name, ms in held.items() if ms}


@pytest.mark.parametrize("new_loop", NEW_LOOPS)
def test_tasks_count_for_their_request(
    clock: Clock, new_loop: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    async def grandchild() -> None:
        clock.advance_ms(1)

    async def child() -> None:
        await asyncio.sleep(0)
        clock.advance_ms(2)
        await asyncio.create_task(grandchild())

    async def handler() -> None:
        clock.advance_ms(4)
        await asyncio.gather(child(), child())
        await asyncio.wait_for(child(), 10)

    counts = counted(handler, new_loop)
    # `wait_for` needs no task of its own from Python 3.12 on.
    assert parts_of(counts) in ({"handler": 4, "child": 9}, {"handler": 6, "child": 7})
    assert counts["hold_ns_sum"] == counts["request_hold_ns_max"] == 13 * MS
    assert counts["polls"] == sum(part["polls"] for part in counts["parts"].values())


@pytest.mark.skipif(sys.version_info < (3, 11), reason="task groups came with Python 3.11")
def test_task_groups_count_and_cancel_as_before(clock: Clock) -> None:
    seen: list[object] = []

    async def fails() -> None:
        clock.advance_ms(3)
        await asyncio.sleep(0)
        raise LookupError

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            clock.advance_ms(5)
            raise

    async def handler() -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            async with asyncio.TaskGroup() as group:  # type: ignore[attr-defined]
                group.create_task(waits())
                group.create_task(fails(), name="mine")
        except BaseException as error:  # noqa: BLE001 - a group, which 3.10 doesn't know
            seen.append([type(one) for one in error.exceptions])  # type: ignore[attr-defined]
        seen.append(task.cancelling())  # type: ignore[attr-defined]

    assert parts_of(counted(handler)) == {"child": 8}
    monitored, seen[:] = list(seen), []
    asyncio.run(handler())
    assert monitored == seen
    assert seen[0] == [LookupError]


@pytest.mark.parametrize("new_loop", NEW_LOOPS)
def test_tasks_are_tasks(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable")
    seen: list[tuple[bool, str, str]] = []

    async def child() -> str:
        task = asyncio.current_task()
        assert task is not None
        seen.append((type(task) is asyncio.Task, task.get_name(), variable.get()))
        await asyncio.sleep(0)
        return "done"

    async def handler() -> None:
        variable.set("inherited")
        assert await asyncio.create_task(child(), name="mine") == "done"
        if sys.version_info >= (3, 11):
            context = contextvars.copy_context()
            context.run(variable.set, "given")
            await asyncio.create_task(child(), context=context)

    counted(handler, new_loop)
    assert seen[0] == (True, "mine", "inherited")
    assert [value for *_, value in seen] == ["inherited", "given"][: len(seen)]


def test_a_task_that_is_cancelled_before_it_begins_never_runs(recwarn: Any) -> None:
    ran: list[str] = []

    async def child() -> None:
        ran.append("child")

    async def handler() -> None:
        task = asyncio.create_task(child())
        task.cancel("too late")
        with pytest.raises(asyncio.CancelledError):
            await task

    counted(handler)
    assert ran == []
    assert recwarn.list == []


def test_what_outlives_the_response_comes_after_it(clock: Clock) -> None:
    app = FastAPI()
    tasks: list[asyncio.Task[None]] = []

    async def work() -> None:
        clock.advance_ms(9)
        await asyncio.sleep(0)
        clock.advance_ms(1)

    async def forgotten() -> None:
        await asyncio.sleep(0.01)
        clock.advance_ms(20)

    @app.get("/x")
    async def handler(background: BackgroundTasks) -> str:
        clock.advance_ms(3)
        background.add_task(work)
        tasks.append(asyncio.create_task(forgotten()))
        return "ok"

    monitor = LoopMonitor(app)

    async def main() -> None:
        assert (await request(monitor, "/x")).text == '"ok"'
        await tasks[0]

    asyncio.run(main())
    counts = monitor.snapshot()["endpoints"]["GET /x"]
    assert parts_of(counts) == {"handler": 3, "after": 30}
    assert counts["hold_ns_max"] == 20 * MS
    assert counts["hold_ns_sum"] == 33 * MS
    # One step that the end of the response parts is one hold.
    assert counts["request_hold_ns_max"] == 12 * MS
    assert counts["polls"] == sum(part["polls"] for part in counts["parts"].values())


def test_streamed_bodies_count_also_where_a_task_sends_them(clock: Clock) -> None:
    app = FastAPI()

    @app.get("/stream")
    async def stream() -> StreamingResponse:
        async def items() -> AsyncIterator[str]:
            for item in range(3):
                clock.advance_ms(4)
                yield f"{item}\n"
                await asyncio.sleep(0)

        return StreamingResponse(items())

    for version, part in (("2.4", "body"), ("2.3", "child")):
        monitor = LoopMonitor(app)
        asgi = {"version": "3.0", "spec_version": version}
        assert ask(monitor, "/stream", asgi=asgi).text == "0\n1\n2\n"
        counts = monitor.snapshot()["endpoints"]["GET /stream"]
        # The first item belongs to the step that the handler began.
        held = parts_of(counts)
        assert sum(held.values()) == 12
        assert held[part] >= 8


def test_what_is_inside_of_a_base_http_middleware_counts(clock: Clock) -> None:
    class Hides(BaseHTTPMiddleware):
        async def dispatch(self, request: Request, call_next: Any) -> Any:
            clock.advance_ms(1)
            return await call_next(request)

    app = FastAPI()

    @app.get("/x/{name}")
    async def handler() -> str:
        clock.advance_ms(5)
        return "ok"

    app.add_middleware(Hides)
    monitor = LoopMonitor(app)
    assert ask(monitor, "/x/1").text == '"ok"'
    counts = monitor.snapshot()["endpoints"]["GET /x/{name}"]
    assert parts_of(counts) == {"handler": 1, "child": 5}


def test_a_factory_that_was_there_makes_the_tasks(clock: Clock) -> None:
    made: list[str] = []

    def factory(loop: Any, coroutine: Any, **settings: Any) -> Any:
        made.append(coroutine.__qualname__.split(".")[-1])
        return asyncio.Task(coroutine, loop=loop, **settings)

    async def child() -> None:
        clock.advance_ms(2)

    def new_loop() -> asyncio.AbstractEventLoop:
        loop = asyncio.new_event_loop()
        loop.set_task_factory(factory)
        return loop

    async def handler() -> None:
        await asyncio.create_task(child())

    assert parts_of(counted(handler, new_loop)) == {"child": 2}
    assert "child" in made


@pytest.mark.skipif(sys.version_info < (3, 12), reason="eager tasks came with Python 3.12")
def test_eager_tasks_stay_eager(clock: Clock) -> None:
    order: list[str] = []

    async def child() -> None:
        order.append("child")
        clock.advance_ms(2)
        await asyncio.sleep(0)
        clock.advance_ms(3)

    async def handler() -> None:
        task = asyncio.create_task(child())
        order.append("handler")
        clock.advance_ms(1)
        await task

    def new_loop() -> asyncio.AbstractEventLoop:
        loop = asyncio.new_event_loop()
        loop.set_task_factory(asyncio.eager_task_factory)  # type: ignore[attr-defined]
        return loop

    # The first step runs within the handler's, and is a part of it.
    assert parts_of(counted(handler, new_loop)) == {"handler": 3, "child": 3}
    assert order == ["child", "handler"]

    async def anyio_handler() -> None:
        import anyio  # noqa: PLC0415 - only where it matters

        order.clear()
        async with anyio.create_task_group() as group:
            group.start_soon(child)
            order.append("handler")

    counted(anyio_handler, new_loop)
    assert order == ["handler", "child"], "anyio knows an eager factory, and starts none eagerly"


def test_a_factory_that_is_set_later_is_said() -> None:
    monitor = LoopMonitor(application(lambda: asyncio.sleep(0)))
    said: list[bool] = []

    def is_said() -> bool:
        return any("Another task factory" in one for one in monitor.snapshot()["not_covered"])

    async def main() -> None:
        await request(monitor, "/x")
        said.append(is_said())
        asyncio.get_running_loop().set_task_factory(None)
        said.append(is_said())

    asyncio.run(main())
    assert said == [False, True]


def test_two_monitors_share_a_loops_factory() -> None:
    monitors = [LoopMonitor(application(lambda: asyncio.sleep(0))) for _ in range(2)]
    factories: set[object] = set()

    async def main() -> None:
        for monitor in monitors:
            await request(monitor, "/x")
            factories.add(asyncio.get_running_loop().get_task_factory())

    asyncio.run(main())
    assert len(factories) == 1


def test_a_request_that_asks_the_application_itself_counts_once(clock: Clock) -> None:
    """As a test client or a gateway does it, within the process."""
    monitor: LoopMonitor

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        async def handler() -> None:
            clock.advance_ms(2)
            if scope["path"] == "/outer":
                await asyncio.create_task(ask_inner())
                clock.advance_ms(1)

        await application(handler, scope["path"])(scope, receive, send)

    async def ask_inner() -> None:
        await request(monitor, "/inner")
        clock.advance_ms(4)

    monitor = LoopMonitor(app)
    ask(monitor, "/outer")
    endpoints = monitor.snapshot()["endpoints"]
    assert sum(counts["hold_ns_sum"] for counts in endpoints.values()) == 9 * MS
    assert parts_of(endpoints["GET /outer"]) == {"handler": 3, "child": 6}
    assert endpoints["GET /inner"]["requests"] == 1


def test_a_server_that_goes_on_in_a_requests_context_is_not_fooled(clock: Clock) -> None:
    """As uvicorn starts the next request of a pipeline: within the last one's `send`."""
    following: list[asyncio.Task[None]] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        async def handler() -> None:
            clock.advance_ms(3)
            await asyncio.sleep(0)
            clock.advance_ms(2)
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b""})

        await application(handler, scope["path"])(scope, receive, send)

    async def receive() -> Message:
        return {"type": "http.request"}

    async def last_send(message: Message) -> None: ...

    async def first_send(message: Message) -> None:
        if message["type"] == "http.response.body":
            inner = monitor(scope_of("/second"), receive, last_send)
            following.append(asyncio.ensure_future(inner))

    monitor = LoopMonitor(app)

    async def main() -> None:
        await monitor(scope_of("/first"), receive, first_send)
        assert current_account.get() is None
        await following[0]

    asyncio.run(main())
    endpoints = monitor.snapshot()["endpoints"]
    assert parts_of(endpoints["GET /first"]) == {"handler": 5}
    assert parts_of(endpoints["GET /second"]) == {"handler": 5}


def test_awaited_calls_are_never_warned_about(caplog: pytest.LogCaptureFixture) -> None:
    """However long they take, in tasks and threads too."""

    async def waits() -> None:
        await asyncio.sleep(0.02)

    async def handler() -> None:
        await asyncio.gather(waits(), waits())
        await asyncio.get_running_loop().run_in_executor(None, int)

    monitor = LoopMonitor(application(handler), warn_over_ms=15)
    asyncio.run(request(monitor, "/x"))
    counts = monitor.snapshot()["endpoints"]["GET /x"]
    # A machine that takes the core away for 15 ms makes a hold of it, and no blocked time.
    assert len(caplog.records) <= counts["polls"]
    for record in caplog.records:
        assert vars(record)["blocked_ms"] < 15


def test_tasks_from_a_thread_count(clock: Clock) -> None:
    async def child() -> None:
        clock.advance_ms(2)

    async def handler() -> None:
        loop = asyncio.get_running_loop()

        def in_thread() -> None:
            asyncio.run_coroutine_threadsafe(child(), loop).result(20)

        await asyncio.to_thread(in_thread)

    assert parts_of(counted(handler)) == {"child": 2}
