"""Long steps with their times: which are told, to whom, and that what isn't kept is counted."""

import asyncio
import json
import threading
from typing import Any

import pytest
from asgi_client import Clock, application, ask, request

from unstall import LoopMonitor
from unstall.conservation import Stretch
from unstall.stalls import NEWEST, Stalls


def stalls(monitor: LoopMonitor, after: int | None = None) -> dict[str, Any]:
    query = b"" if after is None else b"x=1&stalls_after=%d" % after
    document = json.loads(ask(monitor, "/__unstall/snapshot", query_string=query).text)
    told: dict[str, Any] = document["stalls"]
    return told


def long_step(wall_ns: int) -> Stretch:
    return Stretch(wall_ns, cpu_ns=1_000, slept_ns=wall_ns - 1_000)


def test_a_long_step_is_told_with_its_times_and_a_short_one_is_not(clock: Clock) -> None:
    async def handler() -> None:
        clock.advance_ms(1)
        await asyncio.sleep(0)
        clock.advance_ms(0.5)
        began.append(clock.now_ns)
        clock.advance_ms(0)
        await asyncio.sleep(0)
        clock.advance_ms(7)
        await asyncio.sleep(0)

    began: list[int] = []
    monitor = LoopMonitor(application(handler, "/items/{id}"))
    ask(monitor, "/items/7")
    told = stalls(monitor)
    assert (told["threshold_ns"], told["seen"]) == (1_000_000, 1)
    [stall] = told["told"]
    assert (stall["number"], stall["endpoint"], stall["part"]) == (1, "GET /items/{id}", "handler")
    assert (stall["began_ns"], stall["ended_ns"]) == (began[0], began[0] + 7_000_000)


def test_a_step_before_its_route_is_known_keeps_its_own_time(clock: Clock) -> None:
    began: list[int] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        for ms in (3, 0.1, 4):
            began.append(clock.now_ns)
            clock.advance_ms(ms)
            await asyncio.sleep(0)
        await application(lambda: asyncio.sleep(0), "/late")(scope, receive, send)

    monitor = LoopMonitor(app)
    ask(monitor, "/late")
    told = stalls(monitor)["told"]
    assert [stall["began_ns"] for stall in told] == [began[0], began[2]]
    assert [stall["ended_ns"] - stall["began_ns"] for stall in told] == [3_000_000, 4_000_000]
    assert {stall["endpoint"] for stall in told} == {"GET /late"}


def test_a_step_in_which_the_response_ends_is_one_stall(clock: Clock) -> None:
    began: list[int] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await application(lambda: asyncio.sleep(0))(scope, receive, send)
        began.append(clock.now_ns)
        clock.advance_ms(2)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})
        clock.advance_ms(5)

    monitor = LoopMonitor(app)
    ask(monitor, "/x")
    [stall] = stalls(monitor)["told"]
    assert (stall["began_ns"], stall["ended_ns"]) == (began[0], began[0] + 7_000_000)


def test_without_a_threshold_of_the_log_steps_are_told_all_the_same(clock: Clock) -> None:
    async def handler() -> None:
        clock.advance_ms(2)

    for warn_over_ms in (None, 0.5):
        monitor = LoopMonitor(application(handler), warn_over_ms=warn_over_ms)
        ask(monitor, "/x")
        assert stalls(monitor)["seen"] == 1


def test_a_reader_asks_for_what_it_has_not_seen(clock: Clock) -> None:
    async def handler() -> None:
        clock.advance_ms(2)

    monitor = LoopMonitor(application(handler))

    async def main() -> None:
        for _ in range(NEWEST + 10):
            await request(monitor, "/x")

    asyncio.run(main())
    newest = [stall["number"] for stall in stalls(monitor)["told"]]
    assert newest == list(range(11, NEWEST + 11))
    assert [stall["number"] for stall in stalls(monitor, after=72)["told"]] == [73, 74]
    assert len(stalls(monitor, after=0)["told"]) == NEWEST + 10
    assert stalls(monitor, after=2**64 - 1)["told"] == []


@pytest.mark.parametrize("number", [b"", b"-1", b"one", b"1e3", b"9" * 5_000])
def test_what_is_no_number_is_refused(number: bytes) -> None:
    monitor = LoopMonitor(application(lambda: asyncio.sleep(0)))
    answer = ask(monitor, "/__unstall/snapshot", query_string=b"stalls_after=" + number)
    assert answer.status == 400
    assert "a whole number is expected" in answer.text


def test_the_newest_are_kept_and_all_are_counted() -> None:
    ring = Stalls(kept_max=3)
    for number in range(1, 6):
        ring.note(f"GET /{number}", "body", number * 10, long_step(2_000_000))
    seen, steps = ring.after(0)
    told = list(steps)
    assert (seen, [step.number for step in told]) == (5, [3, 4, 5])
    assert told[0] == (3, 30, 2_000_030, "GET /3", "body", 1_999_000)


def test_threads_share_a_ring() -> None:
    ring = Stalls(kept_max=64)

    def write() -> None:
        for number in range(1, 1_000):
            ring.note("GET /x", "handler", number, long_step(number * 2_000))

    writers = [threading.Thread(target=write) for _ in range(4)]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        for step in ring.after(0)[1]:
            assert step.ended_ns - step.began_ns == step.began_ns * 2_000
    for writer in writers:
        writer.join()
    seen, told = ring.after(0)
    assert (seen, len(list(told))) == (4 * 999, 64)
