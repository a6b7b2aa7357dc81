"""Under real servers: both loops, several workers, clients that leave."""

import http.client
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

LOOPS = ["asyncio", "uvloop"]


class Served:
    """A running uvicorn."""

    def __init__(self, port: int) -> None:
        self.port = port

    def get(self, path: str) -> str:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            assert answer.status == 200, path
            return answer.read().decode()
        finally:
            connection.close()

    def snapshot(self) -> dict[str, Any]:
        snapshot: dict[str, Any] = json.loads(self.get("/__unstall/snapshot"))
        return snapshot


@contextmanager
def uvicorn(loop: str, *more: str) -> Iterator[Served]:
    """Run one on a socket that listens already, so that no port is guessed and none is awaited."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        listener.set_inheritable(True)
        command = [sys.executable, "-B", "-m", "uvicorn", "served_app:app", "--loop", loop]
        command += [
            "--fd",
            str(listener.fileno()),
            "--log-level",
            "warning",
            "--timeout-graceful-shutdown",
            "1",
            *more,
        ]
        process = subprocess.Popen(command, cwd=Path(__file__).parent, pass_fds=[listener.fileno()])
        try:
            yield Served(listener.getsockname()[1])
        finally:
            process.terminate()
            try:
                process.wait(20)
            finally:
                process.kill()


@pytest.mark.parametrize("loop", LOOPS)
def test_what_blocks_is_told_from_what_waits(loop: str) -> None:
    with uvicorn(loop) as served:
        for path in ("/blocks/150", "/waits/150", "/pooled/150"):
            served.get(path)
        seen = served.snapshot()
    assert seen["runtime"] == loop
    endpoints = seen["endpoints"]
    assert endpoints["GET /blocks/{ms}"]["hold_ns_max"] >= 150_000_000
    assert endpoints["GET /blocks/{ms}"]["holds_over"]["ms_100"] == 1
    # The wait and the thread are several steps; that they are short isn't a test's to promise.
    for waiting in ("GET /waits/{ms}", "GET /pooled/{ms}"):
        assert endpoints[waiting]["polls"] >= 2
    assert seen["threads"]["pool"] >= 1
    assert sum(seen["loop_lag"]["log2_us"][15:]) >= 2


@pytest.mark.parametrize("loop", LOOPS)
def test_a_stream_under_uvicorn_is_felt_and_said(loop: str) -> None:
    with uvicorn(loop) as served:
        assert served.get("/stream/3") == "0\n1\n2\n"
        seen = served.snapshot()
    assert seen["endpoints"]["GET /stream/{items}"]["requests"] == 1
    # 3 stalls of 60 ms: each covers a deadline of the grid, at least 10 ms before its end.
    assert sum(seen["loop_lag"]["log2_us"][13:]) >= 1
    assert any("streamed bodies" in sentence for sentence in seen["not_covered"])


@pytest.mark.parametrize("loop", LOOPS)
def test_a_client_that_leaves_does_no_harm(loop: str) -> None:
    with uvicorn(loop) as served:
        for path in ("/stream/50", "/waits/60000"):
            with socket.create_connection(("127.0.0.1", served.port), timeout=20) as client:
                client.sendall(f"GET {path} HTTP/1.1\r\nhost: test\r\n\r\n".encode())
                if "stream" in path:
                    assert client.recv(4_096)
        served.get("/blocks/1")
        endpoints = served.snapshot()["endpoints"]
    assert endpoints["GET /blocks/{ms}"]["requests"] == 1
    assert endpoints["GET /stream/{items}"]["requests"] == 1


def test_workers_behind_one_port_have_start_ids_of_their_own() -> None:
    with uvicorn("asyncio", "--workers", "2") as served:
        ids: set[str] = set()
        deadline = time.monotonic() + 30
        while len(ids) < 2 and time.monotonic() < deadline:
            ids.add(served.snapshot()["start_id"])
    assert len(ids) == 2
