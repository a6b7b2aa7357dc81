"""The lag probe: exact on a fixed grid, and silent on an idle loop."""

import asyncio
import time
from collections.abc import Callable
from contextvars import ContextVar, copy_context
from typing import Any

import pytest
import uvloop
from asgi_client import Clock, application, request

from unstall import LoopMonitor
from unstall.histogram import Histogram
from unstall.lag import LagProbe

Loop = Callable[[], asyncio.AbstractEventLoop]


class StoppedLoop(asyncio.SelectorEventLoop):
    """Keeps what it is asked to call, and calls it when a test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[float, Callable[..., None], tuple[Any, ...]]] = []

    def call_later(self, delay: float, callback: Any, *args: Any, **more: Any) -> Any:  # type: ignore[override] # noqa: ARG002
        self.calls.append((delay, callback, args))

    def fire(self) -> None:
        [(_, callback, args)] = self.calls
        self.calls.clear()
        callback(*args)


@pytest.fixture
def loop() -> Any:
    loop = StoppedLoop()
    yield loop
    loop.close()


def late_us(lag: Histogram) -> dict[int, int]:
    return {bucket: count for bucket, count in enumerate(lag.log2_us) if count}


def test_a_stall_counts_for_every_deadline_that_it_covers(clock: Clock, loop: StoppedLoop) -> None:
    clock.now_ns = 1_000_000_000
    lag = Histogram()
    probe = LagProbe(loop, lag)
    probe.request_began()
    assert [delay for delay, *_ in loop.calls] == [0.05]
    clock.advance_ms(170)  # the deadlines after 50, 100 and 150 ms are 120, 70 and 20 ms late
    loop.fire()
    assert late_us(lag) == {14: 1, 16: 2}
    # Its own lateness doesn't move the grid: the next one is 200 ms after the start.
    assert [delay for delay, *_ in loop.calls] == [0.03]


def test_a_timer_that_fires_early_waits_a_whole_millisecond(
    clock: Clock, loop: StoppedLoop
) -> None:
    lag = Histogram()
    probe = LagProbe(loop, lag)
    probe.request_began()
    clock.advance_ms(49.7)
    loop.fire()
    assert [delay for delay, *_ in loop.calls] == [0.001]
    clock.advance_ms(1)
    loop.fire()
    assert late_us(lag) == {9: 1}


def test_an_idle_loop_is_not_woken(clock: Clock, loop: StoppedLoop) -> None:
    lag = Histogram()
    probe = LagProbe(loop, lag)
    assert loop.calls == []
    for _ in range(3):
        probe.request_began()
        probe.request_ended()
    assert len(loop.calls) == 1, "one deadline for all of them"
    clock.advance_ms(50)
    loop.fire()
    assert loop.calls == []
    assert late_us(lag) == {0: 1}
    # The grid goes on where it was.
    clock.advance_ms(13)
    probe.request_began()
    assert [delay for delay, *_ in loop.calls] == [0.037]


@pytest.mark.parametrize("new_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_blocking_call_is_felt_on_a_real_loop(new_loop: Loop) -> None:
    async def handler() -> None:
        time.sleep(0.15)

    monitor = LoopMonitor(application(handler), warn_over_ms=None)

    async def main() -> None:
        await request(monitor, "/x")
        await asyncio.sleep(0.06)

    run_on(new_loop, main)
    seen = monitor.snapshot()
    assert seen["runtime"] == ("uvloop" if new_loop is uvloop.new_event_loop else "asyncio")
    assert seen["endpoints"]["GET /x"]["hold_ns_max"] >= 150_000_000
    lag = seen["loop_lag"]
    assert lag is not None
    # Of three deadlines in 150 ms, the first is at least 100 ms late and the second 50 ms.
    assert sum(lag["log2_us"][15:]) >= 2


def test_timers_do_not_carry_a_requests_variables() -> None:
    secret: ContextVar[str] = ContextVar("secret")
    seen: list[bool] = []

    class Watched(LagProbe):
        def _look(self, deadline_ns: int) -> None:
            seen.append(secret in copy_context())
            super()._look(deadline_ns)

    async def main() -> None:
        secret.set("of this request")
        probe = Watched(asyncio.get_running_loop(), Histogram())
        probe.request_began()
        probe.request_ended()
        while not seen:
            await asyncio.sleep(0.01)

    asyncio.run(main())
    assert seen == [False]


def test_two_loops_at_once_have_no_lag_and_say_so() -> None:
    monitor = LoopMonitor(application(lambda: asyncio.sleep(0)))
    loops = [asyncio.new_event_loop() for _ in range(2)]
    for loop in loops:
        loop.run_until_complete(request(monitor, "/x"))
    seen = monitor.snapshot()
    assert (seen["loops"], seen["loop_lag"]) == (2, None)
    assert any("Several event loops" in sentence for sentence in seen["not_covered"])
    for loop in loops:
        loop.close()


def test_a_loop_after_another_is_one_loop() -> None:
    monitor = LoopMonitor(application(lambda: asyncio.sleep(0)))
    for _ in range(2):
        asyncio.run(request_once(monitor))
    seen = monitor.snapshot()
    assert seen["loop_lag"] is not None
    assert seen["endpoints"]["GET /x"]["requests"] == 2


async def request_once(monitor: LoopMonitor) -> None:
    await request(monitor, "/x")


def run_on(new_loop: Loop, main: Callable[[], Any]) -> None:
    loop = new_loop()
    try:
        loop.run_until_complete(main())
    finally:
        loop.close()
