"""Every framework, under real servers and both loops: what blocks is found, where it is."""

import time
from typing import Any

import pytest
from servers import HYPERCORN, UVICORN, served

SERVERS = {
    "uvicorn-asyncio": (*UVICORN, "--loop", "asyncio"),
    "uvicorn-uvloop": (*UVICORN, "--loop", "uvloop"),
    "hypercorn-asyncio": (*HYPERCORN, "--worker-class", "asyncio"),
    "hypercorn-uvloop": (*HYPERCORN, "--worker-class", "uvloop"),
}

CASES = [
    *(("fastapi", server) for server in SERVERS),
    ("starlette", "uvicorn-uvloop"),
    ("starlette", "hypercorn-asyncio"),
    ("litestar", "uvicorn-uvloop"),
    ("litestar", "hypercorn-asyncio"),
    ("quart", "uvicorn-asyncio"),
    ("quart", "hypercorn-uvloop"),
]

LEAST = 25_000_000
"""Of 30 ms: a reading that lost its core half-way hides a little."""


@pytest.mark.parametrize(("framework", "server"), CASES)
def test_what_blocks_is_found_where_it_is(framework: str, server: str) -> None:
    with served(f"frameworks:{framework}", *SERVERS[server]) as service:
        for path in ("/blocks/30", "/waits/30", "/tasks/15", "/background/30"):
            service.get(path)
        assert service.talk("/socket/me", "30") == "me"
        for _ in range(200):
            seen = service.snapshot()
            if seen["endpoints"]["GET /background/{ms}"]["parts"]["after"]["blocked_ns"]:
                break
            time.sleep(0.05)  # it comes after the response, and there is no other sign
    assert seen["mode"] == "full-split"
    assert seen["runtime"] == server.split("-")[1]
    endpoints = seen["endpoints"]
    parts = {name: endpoint["parts"] for name, endpoint in endpoints.items()}
    own = "child" if framework == "quart" else "handler"  # Quart serves in a task of its own
    assert blocked(endpoints, "GET /blocks/{ms}") >= LEAST
    assert parts["GET /blocks/{ms}"][own]["blocked_ns"] >= LEAST
    assert endpoints["GET /blocks/{ms}"]["blocked"]["events_over_200us"] >= 1
    assert parts["GET /tasks/{ms}"]["child"]["blocked_ns"] >= LEAST
    assert parts["GET /background/{ms}"]["after"]["blocked_ns"] >= LEAST
    assert blocked(endpoints, "WEBSOCKET /socket/{name}") >= LEAST
    # A wait is nobody's blocked time, however the machine is.
    assert endpoints["GET /waits/{ms}"]["requests"] == 1
    assert blocked(endpoints, "GET /waits/{ms}") < LEAST
    assert not any("(unmatched)" in name for name in endpoints)


def blocked(endpoints: dict[str, Any], name: str) -> int:
    blocked = endpoints[name]["blocked"]
    return int(blocked["slept_ns"] + blocked["fault_ns"])
