"""Under real servers: both loops, several workers, clients that leave."""

import contextlib
import socket
import time

import pytest
from servers import UVICORN, Served, served

LOOPS = ["asyncio", "uvloop"]


def uvicorn(loop: str, *more: str) -> contextlib.AbstractContextManager[Served]:
    return served("served_app:app", *UVICORN, "--loop", loop, *more)


@pytest.mark.parametrize("loop", LOOPS)
def test_what_blocks_is_told_from_what_waits(loop: str) -> None:
    with uvicorn(loop) as service:
        for path in ("/blocks/150", "/waits/150", "/pooled/150"):
            service.get(path)
        seen = service.snapshot()
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
def test_a_stream_under_uvicorn_counts_and_is_felt(loop: str) -> None:
    with uvicorn(loop) as service:
        assert service.get("/stream/3") == "0\n1\n2\n"
        seen = service.snapshot()
    counts = seen["endpoints"]["GET /stream/{items}"]
    assert counts["requests"] == 1
    # Starlette sends it from a task, since uvicorn is a server below ASGI 2.4.
    assert counts["parts"]["child"]["blocked_ns"] >= 150_000_000
    # 3 stalls of 60 ms: each covers a deadline of the grid, at least 10 ms before its end.
    assert sum(seen["loop_lag"]["log2_us"][13:]) >= 1


@pytest.mark.parametrize("loop", LOOPS)
def test_a_client_that_leaves_does_no_harm(loop: str) -> None:
    with uvicorn(loop) as service:
        for path in ("/stream/50", "/waits/60000"):
            with socket.create_connection(("127.0.0.1", service.port), timeout=20) as client:
                client.sendall(f"GET {path} HTTP/1.1\r\nhost: test\r\n\r\n".encode())
                if "stream" in path:
                    assert client.recv(4_096)
        service.get("/blocks/1")
        endpoints = service.snapshot()["endpoints"]
    assert endpoints["GET /blocks/{ms}"]["requests"] == 1
    assert endpoints["GET /stream/{items}"]["requests"] == 1


def test_workers_behind_one_port_have_start_ids_of_their_own() -> None:
    with uvicorn("asyncio", "--workers", "2") as service:
        ids: set[str] = set()
        deadline = time.monotonic() + 30
        while len(ids) < 2 and time.monotonic() < deadline:
            ids.add(service.snapshot()["start_id"])
    assert len(ids) == 2
