"""What the middleware counts, warns about, passes through and leaves alone."""

import asyncio
import logging
from collections.abc import AsyncIterator
from typing import Any

import pytest
from asgi_client import Clock, application, ask, request, scope_of
from fastapi import FastAPI
from starlette.responses import StreamingResponse

from unstall import LoopMonitor
from unstall.asgi import Message, Receive, Scope, Send


def test_holds_are_kept_as_maximum_and_sum(clock: Clock) -> None:
    async def handler() -> None:
        for hold_ms in (2, 30, 120):
            clock.advance_ms(hold_ms)
            await asyncio.sleep(0)

    monitor = LoopMonitor(application(handler), warn_over_ms=None)
    ask(monitor, "/x")
    ask(monitor, "/x")
    counts = monitor.snapshot()["endpoints"]["GET /x"]
    assert (counts["requests"], counts["polls"]) == (2, 8)
    assert counts["hold_ns_sum"] == 2 * 152_000_000
    assert counts["hold_ns_max"] == 120_000_000
    assert counts["request_hold_ns_max"] == 152_000_000
    assert counts["holds_over"] == {"ms_1": 6, "ms_10": 4, "ms_100": 2}
    # 2 ms in [1 024, 2 048) µs, 30 ms in [16 384, 32 768) µs, 120 ms in [65 536, 131 072) µs.
    buckets = {bucket: count for bucket, count in enumerate(counts["hold"]["log2_us"]) if count}
    assert buckets == {0: 2, 10: 2, 14: 2, 16: 2}


def test_many_short_holds_add_up(clock: Clock) -> None:
    """Ten holds of 10 ms in a row are no hold of 100 ms, and yet 100 ms are gone."""

    async def handler() -> None:
        for _ in range(10):
            clock.advance_ms(10)
            await asyncio.sleep(0)

    monitor = LoopMonitor(application(handler))
    ask(monitor, "/x")
    counts = monitor.snapshot()["endpoints"]["GET /x"]
    assert counts["holds_over"]["ms_100"] == 0
    assert counts["request_hold_ns_max"] == 100_000_000


def test_a_wait_is_no_hold(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    async def handler() -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def later() -> None:
            clock.advance_ms(5_000)
            future.set_result(None)

        asyncio.get_running_loop().call_soon(later)
        await future

    monitor = LoopMonitor(application(handler))
    ask(monitor, "/x")
    assert monitor.snapshot()["endpoints"]["GET /x"]["hold_ns_sum"] == 0
    assert caplog.records == []


def test_a_long_hold_is_warned_about_once_a_second(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    async def handler() -> None:
        clock.advance_ms(150)
        await asyncio.sleep(0)
        clock.advance_ms(150)

    monitor = LoopMonitor(application(handler, "/users/{id}"))
    ask(monitor, "/users/1")
    [record] = caplog.records
    assert (record.name, record.levelno) == ("unstall", logging.WARNING)
    assert "one step of GET /users/{id} held the event loop for 150.0 ms" in record.getMessage()
    assert vars(record)["endpoint"] == "/users/{id}"
    assert vars(record)["method"] == "GET"
    assert vars(record)["hold_ms"] == 150.0
    clock.advance_ms(1_000)
    ask(monitor, "/users/1")
    assert len(caplog.records) == 2
    assert vars(caplog.records[1])["suppressed"] == 1
    assert "(and 1 more since the last warning)" in caplog.records[1].getMessage()


@pytest.mark.parametrize(("warn_over_ms", "warnings"), [(None, 0), (200, 0), (100, 1), (0.5, 1)])
def test_the_warnings_bound_is_the_users(
    clock: Clock, caplog: pytest.LogCaptureFixture, warn_over_ms: float | None, warnings: int
) -> None:
    async def handler() -> None:
        clock.advance_ms(101)

    ask(LoopMonitor(application(handler), warn_over_ms=warn_over_ms), "/x")
    assert len(caplog.records) == warnings


def test_a_request_that_fails_is_counted_and_fails_as_before(clock: Clock) -> None:
    error = RuntimeError("theirs")

    async def handler() -> None:
        clock.advance_ms(3)
        raise error

    monitor = LoopMonitor(application(handler))
    with pytest.raises(RuntimeError) as caught:
        ask(monitor, "/x")
    assert caught.value is error
    counts = monitor.snapshot()["endpoints"]["GET /x"]
    assert (counts["requests"], counts["hold_ns_sum"]) == (1, 3_000_000)


def test_a_stream_counts_while_it_runs(clock: Clock) -> None:
    app = FastAPI()

    @app.get("/stream")
    async def stream() -> StreamingResponse:
        async def items() -> AsyncIterator[str]:
            for item in range(3):
                clock.advance_ms(4)
                yield f"{item}\n"
                await asyncio.sleep(0)
                held.append(monitor.snapshot()["endpoints"]["GET /stream"]["hold_ns_sum"])

        return StreamingResponse(items())

    held: list[int] = []
    monitor = LoopMonitor(app)
    assert ask(monitor, "/stream").text == "0\n1\n2\n"
    # The test's server is one of ASGI 2.4: there the body is sent by the request's own task.
    assert held == [4_000_000, 8_000_000, 12_000_000]


def test_a_client_that_leaves_cancels_as_before(clock: Clock) -> None:
    events: list[str] = []

    async def handler() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            clock.advance_ms(2)
            events.append("cleaned up")

    monitor = LoopMonitor(application(handler))

    async def main() -> None:
        task = asyncio.ensure_future(request(monitor, "/x"))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert events == ["cleaned up"]
    assert monitor.snapshot()["endpoints"]["GET /x"]["hold_ns_sum"] == 2_000_000


def test_the_lifespan_passes_through_untouched() -> None:
    seen: list[Any] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.extend((scope, receive, send))

    async def receive() -> Message:
        return {"type": "lifespan.startup"}

    async def send(message: Message) -> None:
        seen.append(message)

    monitor = LoopMonitor(app)
    scope: Scope = {"type": "lifespan", "path": "/__unstall/snapshot"}
    asyncio.run(monitor(scope, receive, send))
    assert seen == [scope, receive, send]
    assert scope == {"type": "lifespan", "path": "/__unstall/snapshot"}
    assert monitor.snapshot()["endpoints"] == {}


def test_a_request_in_two_monitors_counts_in_the_outer_one(clock: Clock) -> None:
    async def handler() -> None:
        clock.advance_ms(1)

    inner = LoopMonitor(application(handler))
    outer = LoopMonitor(inner)
    ask(outer, "/x")
    assert outer.snapshot()["endpoints"]["GET /x"]["hold_ns_sum"] == 1_000_000
    assert inner.snapshot()["endpoints"] == {}


def test_a_route_that_is_found_late_gets_the_steps_before_it(clock: Clock) -> None:
    handled = application(lambda: asyncio.sleep(0))

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        for _ in range(3):
            clock.advance_ms(1)
            await asyncio.sleep(0)
        await handled(scope, receive, send)

    monitor = LoopMonitor(app)
    ask(monitor, "/x")
    assert monitor.snapshot()["endpoints"]["GET /x"]["hold_ns_sum"] == 3_000_000


def test_a_request_that_never_finds_a_route_takes_no_memory(clock: Clock) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG001
        for _ in range(3_000):
            clock.advance_ms(0.001)
            await asyncio.sleep(0)
        counts.append(monitor.snapshot()["endpoints"]["* (unmatched)"]["polls"])

    counts: list[int] = []
    monitor = LoopMonitor(app)
    ask(monitor, "/x")
    assert counts == [3_000]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"snapshot_path": "snapshot"}, "plain segments"),
        ({"snapshot_path": "/a?b"}, "plain segments"),
        ({"metrics_path": "/__unstall/snapshot"}, "share the path"),
        ({"token": " "}, "would let everyone in"),
        ({"token": "pässword"}, "can't be sent"),
    ],
)
def test_mistakes_are_told_at_the_start(settings: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        LoopMonitor(application(lambda: asyncio.sleep(0)), **settings)


def test_the_scope_gets_one_mark_and_the_messages_none() -> None:
    seen: list[Scope] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG001
        seen.append(scope)

    ask(LoopMonitor(app), "/x")
    assert set(seen[0]) - set(scope_of("/x")) == {"unstall.monitored"}
