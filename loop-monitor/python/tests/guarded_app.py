"""An application whose routes do what a guarded test must tell apart."""

import asyncio
import os
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable
from importlib import import_module
from pathlib import Path
from time import sleep as early_bound

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route

Handler = Callable[[Request], Awaitable[PlainTextResponse]]
BLOCKING: dict[str, Handler] = {}
CLEAN: dict[str, Handler] = {}


def _answering(kind: dict[str, Handler], act: Callable[[], Awaitable[object]]) -> None:
    async def handler(_: Request) -> PlainTextResponse:
        await act()
        return PlainTextResponse("done")

    kind[act.__name__] = handler


async def sleeps() -> None:
    time.sleep(0.0001)


async def sleeps_early_bound() -> None:
    early_bound(0.0001)


# ruff: noqa: ASYNC221, ASYNC230, ASYNC240 - what must not be done is done here


async def reads_a_cached_file() -> None:
    Path(__file__).read_text()


async def iterates_over_lines() -> None:
    with open(__file__) as file:  # noqa: PTH123 - the plainest way
        list(file)


async def looks_up_a_name() -> None:
    socket.getaddrinfo("localhost", 80)


async def syncs_a_file() -> None:
    with tempfile.TemporaryFile() as file:
        os.fsync(file.fileno())


async def runs_a_process() -> None:
    subprocess.run(["true"], check=True)  # noqa: S607 - wherever it is


async def runs_a_shell() -> None:
    os.system("true")  # noqa: S605, S607 - a shell is the point


async def asks_a_peer() -> None:
    mine, theirs = socket.socketpair()
    with mine, theirs:
        theirs.sendall(b"x")
        mine.recv(1)


async def waits_for_a_lock() -> None:
    lock = threading.Lock()
    lock.acquire()
    lock.acquire(timeout=0.001)


async def imports_a_module() -> None:
    import_module("this_is_imported_late")


async def awaits_a_sleep() -> None:
    await asyncio.sleep(0.001)


async def uses_a_thread() -> None:
    await asyncio.to_thread(time.sleep, 0.002)


async def computes() -> None:
    sum(range(100_000))


async def waits_for_the_interpreter_lock() -> None:
    def spin() -> None:
        sum(range(3_000_000))

    spinning = threading.Thread(target=spin)
    spinning.start()
    while spinning.is_alive():
        await asyncio.sleep(0)


async def logs() -> None:
    print("a line")  # noqa: T201 - standard output is the point


for _act in (
    sleeps,
    sleeps_early_bound,
    reads_a_cached_file,
    iterates_over_lines,
    looks_up_a_name,
    syncs_a_file,
    runs_a_process,
    runs_a_shell,
    asks_a_peer,
    waits_for_a_lock,
    imports_a_module,
):
    _answering(BLOCKING, _act)
for _act in (awaits_a_sleep, uses_a_thread, computes, waits_for_the_interpreter_lock, logs):
    _answering(CLEAN, _act)


def _sync(_: Request) -> PlainTextResponse:
    time.sleep(0.001)
    return PlainTextResponse("on a thread")


app = Starlette(
    routes=[
        *(Route(f"/{name}", handler) for name, handler in (BLOCKING | CLEAN).items()),
        Route("/sync", _sync),
    ]
)
