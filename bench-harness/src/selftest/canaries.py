"""The canaries in Python: an ASGI application under the monitor, driven by orders on stdin.

`unstall selftest monitor` starts it as `python3 canaries.py asyncio|uvloop` and speaks with it in
lines of JSON, the same as with the program in Rust. The loop runs on the main thread; orders are
read on another one. Each blocking call is a function of its own, so that whoever names it names
its line.
"""

import asyncio
import contextlib
import functools
import json
import os
import resource
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from unstall import LoopMonitor

FILE_BYTES = 256 * 1024
PAUSE_S = 0.0005
SLEEP_NS_MIN = 200_000
LOCK_WAIT_SHARE = 10
"""So many times the CPU time of other threads may have been a wait for the interpreter's lock."""
READING_NS_MAX = 100_000
PATIENCE_S = 5.0


class Truth:
    """The calling thread at one moment, by its own account."""

    def __init__(self) -> None:
        for _ in range(4):
            self.began_ns = time.monotonic_ns()
            self.cpu_ns = time.thread_time_ns()
            usage = resource.getrusage(resource.RUSAGE_THREAD)
            self.sleeps = usage.ru_nvcsw + usage.ru_majflt
            self.run_delay_ns = int(os.pread(_schedstat(), 96, 0).split()[1])
            self.ended_ns = time.monotonic_ns()
            if self.ended_ns - self.began_ns < READING_NS_MAX:
                break  # not interrupted half-way

    def slept_ns_since(self) -> int:
        """How long the thread slept since then at least: readings count as awake."""
        now = Truth()
        if now.sleeps == self.sleeps:
            return 0
        awake_ns = now.cpu_ns - self.cpu_ns + now.run_delay_ns - self.run_delay_ns
        return now.began_ns - self.ended_ns - awake_ns


def others_cpu_ns() -> int:
    """CPU time of the interpreter's other threads so far."""
    return time.process_time_ns() - time.thread_time_ns()


@functools.cache
def _schedstat() -> int:
    """Open the loop thread's own file: only that thread asks."""
    return os.open("/proc/thread-self/schedstat", os.O_RDONLY)


class LockHolder:
    """A thread that holds a lock until somebody sleeps for it, and a little longer."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.wanted = False
        self._taken = threading.Event()

    def take_away(self, hold_s: float, *, is_quiet: bool) -> None:
        """Have the lock taken from under the calling thread.

        A quiet holder sleeps for that time and computes nothing meanwhile, which could be taken for
        a wait for the interpreter's lock; another one looks until somebody waits.
        """
        self._taken.clear()
        self.wanted = False
        hold = self._hold_quietly if is_quiet else self._hold
        waiter = threading.get_native_id()
        threading.Thread(target=hold, args=(waiter, hold_s), daemon=True).start()
        self._taken.wait()

    def _hold_quietly(self, _waiter: int, hold_s: float) -> None:
        with self.lock:
            self._taken.set()
            time.sleep(hold_s)

    def _hold(self, waiter: int, hold_s: float) -> None:
        with self.lock:
            self._taken.set()
            deadline = time.monotonic() + PATIENCE_S
            while not (self.wanted and _is_asleep(waiter)) and time.monotonic() < deadline:
                time.sleep(0.0001)
            time.sleep(hold_s)


def _is_asleep(thread: int) -> bool:
    with open(f"/proc/self/task/{thread}/stat") as stat:
        return stat.read().rpartition(") ")[2].startswith("S")


def _answer(connection: socket.socket) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # A caller that ends may leave an answer unread, which resets the connection.
    with connection, contextlib.suppress(ConnectionError):
        while question := connection.recv(4, socket.MSG_WAITALL):
            wait_us = int.from_bytes(question, "little")
            if wait_us:
                time.sleep(wait_us / 1e6)
            connection.sendall(b"!")


def be_the_peer() -> None:
    """Answer in a process of its own, so that no interpreter lock is shared with the caller."""
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)

    def accept() -> None:
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=_answer, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    sys.stdin.read()  # ends with the process that started this one


def _start_peer() -> tuple[str, int]:
    peer = subprocess.Popen(
        [sys.executable, "-B", __file__, "peer"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert peer.stdout is not None
    return "127.0.0.1", int(peer.stdout.readline())


def _connect(address: tuple[str, int]) -> socket.socket:
    connection = socket.create_connection(address)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection


class Soil:
    """What the calls need to be there."""

    def __init__(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.read_file = os.path.join(self.folder.name, "read")
        with open(self.read_file, "wb") as file:
            file.write(b"x" * FILE_BYTES)
            file.flush()
            os.fsync(file.fileno())  # pages that aren't on the disk yet can't be dropped
        self.written = os.open(os.path.join(self.folder.name, "written"), os.O_CREAT | os.O_WRONLY)
        self.holder = LockHolder()
        self.peer = _start_peer()
        self.connection = _connect(self.peer)
        self.prompt_connection = _connect(self.peer)
        self.prompt_connection.sendall(bytes(4))
        self.may_end = threading.Event()
        self.streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    def prepare_call(self, run: dict[str, Any]) -> None:
        """Do what a call needs each time, outside of what is measured."""
        canary = run["canary"]
        if canary == "uncached-read":
            file = os.open(self.read_file, os.O_RDONLY)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(file)
        elif canary == "lock":
            self.holder.take_away(run["block_us"] / 1e6, is_quiet=run["count_sleeps"])


def sleep(_: Soil, block_s: float) -> None:
    time.sleep(block_s)


def cached_read(soil: Soil, _: float) -> None:
    with open(soil.read_file, "rb") as file:
        file.read()


def uncached_read(soil: Soil, _: float) -> None:
    with open(soil.read_file, "rb") as file:
        file.read()


def fsync(soil: Soil, _: float) -> None:
    os.pwrite(soil.written, b"x" * 4096, 0)
    os.fsync(soil.written)


def dns(_soil: Soil, _: float) -> None:
    socket.getaddrinfo("localhost", 80)


def lock(soil: Soil, _: float) -> None:
    soil.holder.wanted = True
    with soil.holder.lock:
        pass


def instant_rpc(soil: Soil, _: float) -> None:
    soil.prompt_connection.recv(1)
    soil.prompt_connection.sendall(bytes(4))


def slow_rpc(soil: Soil, block_s: float) -> None:
    soil.connection.sendall(_question(block_s))
    soil.connection.recv(1)


def spawn(_: Soil, block_s: float) -> None:
    subprocess.run(["sleep", str(block_s)], check=True)


def never_ending(soil: Soil, _: float) -> None:
    soil.may_end.wait()
    soil.may_end.clear()  # one release ends one poll: it may be planted again


def spin(_: Soil, block_s: float) -> None:
    end = time.thread_time() + block_s
    while time.thread_time() < end:
        sum(range(2_000))  # between two looks at a clock that takes a system call


def _question(block_s: float) -> bytes:
    return round(block_s * 1e6).to_bytes(4, "little")


def _read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


async def awaited_sleep(_: Soil, block_s: float) -> None:
    await asyncio.sleep(block_s)


async def pooled(_: Soil, block_s: float) -> None:
    await asyncio.to_thread(time.sleep, block_s)


async def awaited_read(soil: Soil, _: float) -> None:
    await asyncio.to_thread(_read, soil.read_file)


async def awaited_rpc(soil: Soil, block_s: float) -> None:
    assert soil.streams is not None
    reader, writer = soil.streams
    writer.write(_question(block_s))
    await reader.readexactly(1)


BLOCKING: dict[str, Callable[[Soil, float], None]] = {
    "sleep": sleep,
    "cached-read": cached_read,
    "uncached-read": uncached_read,
    "fsync": fsync,
    "dns": dns,
    "lock": lock,
    "instant-rpc": instant_rpc,
    "slow-rpc": slow_rpc,
    "spawn": spawn,
    "never-ending": never_ending,
    "spin": spin,
    "spin-busy": spin,
    "spin-throttled": spin,
    "gil-wait": spin,
}
CLEAN = ("spin", "spin-busy", "spin-throttled", "gil-wait")
AWAITED: dict[str, Callable[[Soil, float], Awaitable[None]]] = {
    "awaited-sleep": awaited_sleep,
    "pooled": pooled,
    "awaited-read": awaited_read,
    "awaited-rpc": awaited_rpc,
}


class Route:
    """What a framework leaves in a scope."""

    endpoint = "canary"

    def __init__(self, path: str) -> None:
        self.path = path


class Host:
    """The application, and what it knows of its calls."""

    def __init__(self) -> None:
        self.soil = Soil()
        self.slept_ns = 0
        self.spins = False
        self.monitor = LoopMonitor(self.app)

    async def app(self, scope: Any, _receive: Any, send: Any) -> None:
        """Serve one canary's request."""
        run = scope["run"]
        canary, block_s = run["canary"], run["block_us"] / 1e6
        scope["route"] = Route(f"/{canary}")
        if canary in AWAITED:
            await AWAITED[canary](self.soil, block_s)
        elif run["count_sleeps"] and canary not in CLEAN:
            before = Truth()
            BLOCKING[canary](self.soil, block_s)
            self.slept_ns = before.slept_ns_since()
        else:
            BLOCKING[canary](self.soil, block_s)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    async def serve(self, run: dict[str, Any]) -> dict[str, Any]:
        """Serve a canary's requests, one after the other, each in a task of its own."""
        slept = calls = 0
        error = None
        try:
            for _ in range(run["count"]):
                self.soil.prepare_call(run)
                self.slept_ns, others_ns = 0, others_cpu_ns()
                await asyncio.create_task(self._request(run))
                # What may have been a wait for the interpreter's lock, nobody can call a sleep.
                lock_wait_ns_max = LOCK_WAIT_SHARE * (others_cpu_ns() - others_ns)
                slept += self.slept_ns - lock_wait_ns_max >= SLEEP_NS_MIN
                calls += 1
                await asyncio.sleep(PAUSE_S)
        except Exception as failure:  # noqa: BLE001 - whatever it is, it is told
            error = repr(failure)
        self.spins = False
        finished = {"canary": run["canary"], "calls": calls, "slept": slept}
        return finished | {"error": error}

    def spin_beside(self) -> None:
        """Compute on another thread of the interpreter until the run is over.

        Never called on the loop: to start a thread is a wait for it.
        """

        def compute() -> None:
            deadline = time.monotonic() + 60
            while self.spins and time.monotonic() < deadline:
                sum(range(1_000))

        self.spins = True
        threading.Thread(target=compute, daemon=True).start()

    async def _request(self, run: dict[str, Any]) -> None:
        scope = {
            "type": "http",
            "method": "GET",
            "path": f"/{run['canary']}",
            "headers": [],
            "run": run,
        }
        await self.monitor(scope, _receive, _send)


async def _receive() -> dict[str, Any]:
    return {"type": "http.request", "body": b"", "more_body": False}


async def _send(message: dict[str, Any]) -> None:
    del message


def say(reply: Any) -> None:
    """Write one reply, whole also when two threads speak at once."""
    sys.stdout.write(json.dumps(reply) + "\n")
    sys.stdout.flush()


async def main() -> None:
    """Serve orders until there are no more."""
    host = Host()
    host.soil.streams = await asyncio.open_connection(*host.soil.peer)
    loop = asyncio.get_running_loop()
    # Starting a thread is a wait by itself: the pool has its only one before anything is tested.
    loop.set_default_executor(ThreadPoolExecutor(1))
    await asyncio.to_thread(time.sleep, 0)
    over = asyncio.Event()
    runs: set[asyncio.Task[None]] = set()

    async def run_and_tell(run: dict[str, Any]) -> None:
        say({"finished": await host.serve(run)})

    def begin(run: dict[str, Any]) -> None:
        task = loop.create_task(run_and_tell(run))
        runs.add(task)
        task.add_done_callback(runs.discard)

    def read_orders() -> None:
        for line in sys.stdin:
            order = json.loads(line)
            if order == "snapshot":
                say({"snapshot": host.monitor.snapshot()})
            elif order == "release":
                host.soil.may_end.set()
            else:
                if order["run"]["canary"] == "gil-wait":
                    host.spin_beside()
                loop.call_soon_threadsafe(begin, order["run"])
        host.soil.may_end.set()
        loop.call_soon_threadsafe(over.set)

    threading.Thread(target=read_orders, daemon=True).start()
    say("ready")
    await over.wait()


if __name__ == "__main__":
    if sys.argv[1] == "peer":
        be_the_peer()
    elif sys.argv[1] == "uvloop":
        import uvloop

        uvloop.run(main())
    else:
        asyncio.run(main())
