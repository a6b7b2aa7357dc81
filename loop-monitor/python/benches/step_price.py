"""What the monitor costs per request and per step, beside the same code without it.

Both run in turn in one process, so that the machine is the same for both; the figure is the
difference of the medians. `python benches/step_price.py [rounds]` prints a table in Markdown.
"""

import asyncio
import statistics
import sys
import types
from collections.abc import Generator
from time import process_time_ns
from typing import Any

from unstall import LoopMonitor
from unstall.asgi import ASGIApp, Message, Receive, Scope, Send

REQUESTS = 2_000
STEPS = 20


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

    return app


async def _receive() -> Message:
    return {}


async def _send(message: Message) -> None:
    del message


async def _serve(app: ASGIApp) -> float:
    """Serve the requests by hand, without a task each: CPU per request in nanoseconds."""
    began = process_time_ns()
    for _ in range(REQUESTS):
        scope: Scope = {"type": "http", "method": "GET", "path": "/x"}
        coroutine: Any = app(scope, _receive, _send)
        try:
            while True:
                coroutine.send(None)
        except StopIteration:
            pass
    return (process_time_ns() - began) / REQUESTS


def _medians(rounds: int) -> dict[tuple[bool, int], float]:
    """By whether it is monitored and its number of steps."""
    apps: dict[tuple[bool, int], ASGIApp] = {}
    for steps in (1, STEPS + 1):
        apps[False, steps] = _app(steps)
        apps[True, steps] = LoopMonitor(_app(steps))
    found: dict[tuple[bool, int], list[float]] = {name: [] for name in apps}

    async def main() -> None:
        for _ in range(rounds):
            for name, app in apps.items():
                found[name].append(await _serve(app))

    asyncio.run(main())
    return {name: statistics.median(values) for name, values in found.items()}


def main() -> None:
    """Print the table."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    median = _medians(rounds)
    print("| | without | with | price |\n|---|---|---|---|")
    rows = {
        "request of one step": {monitored: median[monitored, 1] for monitored in (False, True)},
        "each further step": {
            monitored: (median[monitored, STEPS + 1] - median[monitored, 1]) / STEPS
            for monitored in (False, True)
        },
    }
    for name, row in rows.items():
        bare, monitored = row[False] / 1e3, row[True] / 1e3
        print(f"| {name} | {bare:.2f} µs | {monitored:.2f} µs | {monitored - bare:.2f} µs |")


if __name__ == "__main__":
    main()
