"""What the monitor costs per request and per step, beside the same code without it.

Both run in turn in one process, so that the machine is the same for both; the figure is the
difference of the medians. `python benches/step_price.py [rounds]` prints a table in Markdown.
"""

import asyncio
import statistics
import sys
import time
import types
from collections.abc import Generator
from time import process_time_ns
from typing import Any

from unstall import LoopMonitor
from unstall.asgi import ASGIApp, Message, Receive, Scope, Send

REQUESTS = 2_000
REQUESTS_OF_SLEEPS = 50
STEPS = 20
SLEEP_S = 20e-6


class _Route:
    path = "/x"
    endpoint = "x"


_ROUTE = _Route()


@types.coroutine
def _switch() -> Generator[None, None, None]:
    """Give the turn back and get it again, as every await of something unfinished does."""
    yield


def _app(steps: int) -> ASGIApp:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG001
        scope["route"] = _ROUTE
        for _ in range(steps - 1):
            await _switch()
        await send({"type": "http.response.start"})
        await send({"type": "http.response.body"})

    return app


async def _receive() -> Message:
    return {}


async def _send(message: Message) -> None:
    del message


async def _serve(app: ASGIApp, *, sleeps: bool) -> float:
    """Serve the requests by hand, without a task each: CPU per request in nanoseconds.

    Between steps the thread either goes on at once, as a busy loop does, or sleeps, as an idle one.
    """
    requests = REQUESTS_OF_SLEEPS if sleeps else REQUESTS
    began = process_time_ns()
    for _ in range(requests):
        scope: Scope = {"type": "http", "method": "GET", "path": "/x"}
        coroutine: Any = app(scope, _receive, _send)
        try:
            while True:
                coroutine.send(None)
                if sleeps:
                    time.sleep(SLEEP_S)  # noqa: ASYNC251 - what a loop does without work
        except StopIteration:
            pass
    return (process_time_ns() - began) / requests


_Case = tuple[bool, int, bool]
"""Whether it is monitored, its number of steps, and whether the loop sleeps between them."""


def _medians(rounds: int) -> dict[_Case, float]:
    apps: dict[_Case, ASGIApp] = {}
    for steps in (1, STEPS + 1):
        for sleeps in (False, True):
            apps[False, steps, sleeps] = _app(steps)
            apps[True, steps, sleeps] = LoopMonitor(_app(steps))
    found: dict[_Case, list[float]] = {name: [] for name in apps}

    async def main() -> None:
        for _ in range(rounds):
            for name, app in apps.items():
                found[name].append(await _serve(app, sleeps=name[2]))

    asyncio.run(main())
    return {name: statistics.median(values) for name, values in found.items()}


def main() -> None:
    """Print the table."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    median = _medians(rounds)

    def each_step(*, monitored: bool, sleeps: bool) -> float:
        whole = median[monitored, STEPS + 1, sleeps] - median[monitored, 1, sleeps]
        return whole / STEPS

    rows = {
        "request of one step": [median[monitored, 1, False] for monitored in (False, True)],
        "each further step, loop busy": [
            each_step(monitored=monitored, sleeps=False) for monitored in (False, True)
        ],
        "each further step, after a sleep of the loop": [
            each_step(monitored=monitored, sleeps=True) for monitored in (False, True)
        ],
    }
    print("| | without | with | price |\n|---|---|---|---|")
    for name, (bare_ns, monitored_ns) in rows.items():
        bare, monitored = bare_ns / 1e3, monitored_ns / 1e3
        print(f"| {name} | {bare:.2f} µs | {monitored:.2f} µs | {monitored - bare:.2f} µs |")


if __name__ == "__main__":
    main()
