"""What a tracer reads of a service in proof mode, word by word."""

import threading

import pytest

from unstall.account import Account
from unstall.endpoints import Endpoints
from unstall.proof import (
    ENDPOINTS,
    MAGIC,
    MAPPING,
    REQUESTS,
    SLOTS,
    ProofMemory,
    ProvingMeter,
    proof_memory,
)
from unstall.steps import Steps

_FIRST_SLOT = 8
_FIRST_REQUEST = _FIRST_SLOT + 2 * SLOTS
_FIRST_ENDPOINT = _FIRST_REQUEST + 3 * REQUESTS


def _words(memory: ProofMemory, at: int, count: int) -> list[int]:
    return list(memory._words[at : at + count])


def test_the_header_says_how_large_the_tables_are() -> None:
    memory = ProofMemory()
    assert _words(memory, 0, 8) == [MAGIC, 1, SLOTS, REQUESTS, ENDPOINTS, 0, 0, 0]
    with open("/proc/self/maps") as maps:  # noqa: PTH123 - as a tracer does
        assert f"/memfd:{MAPPING}" in maps.read()


def test_a_step_names_its_request_and_counts_at_its_route() -> None:
    memory = ProofMemory()
    slot = memory.slot()
    assert slot == _FIRST_SLOT + 1
    assert _words(memory, _FIRST_SLOT, 1) == [threading.get_native_id()]
    serial = memory.request()
    memory.enter(slot, serial)
    assert _words(memory, slot, 1) == [serial]
    memory.leave(slot)
    assert _words(memory, slot, 1) == [0]
    request = _FIRST_REQUEST + 3 * serial
    assert _words(memory, request, 3) == [serial, 0, 1]
    memory.settle(serial, "GET /items/{id}")
    assert _words(memory, request, 2) == [serial, 1]
    memory.enter(slot, serial)
    memory.leave(slot)
    requests, steps, length, *name = _words(memory, _FIRST_ENDPOINT, 32)
    assert (requests, steps) == (1, 2)
    assert b"".join(word.to_bytes(8, "little") for word in name)[:length] == b"GET /items/{id}"


def test_a_request_whose_place_is_taken_is_forgotten() -> None:
    memory = ProofMemory()
    first = memory.request()
    for _ in range(REQUESTS):
        memory.request()
    memory.settle(first, "GET /late")
    assert _words(memory, _FIRST_ENDPOINT, 3) == [0, 0, 0]


def test_more_threads_than_places_are_left_out() -> None:
    memory = ProofMemory()
    assert all(memory.slot() for _ in range(SLOTS))
    assert memory.slot() is None


def test_the_meter_tells_whose_step_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = ProofMemory()
    monkeypatch.setattr("unstall.account.proof_memory", lambda: memory)
    meter = ProvingMeter(memory)
    seen = []

    async def step() -> None:
        seen.extend(_words(memory, _FIRST_SLOT + 1, 1))

    account = Account({"type": "http", "method": "GET", "path": "/"}, Endpoints(2), None)
    with pytest.raises(StopIteration):
        Steps(step(), meter, account).send(None)
    account.end()
    assert seen == [account.serial]
    assert _words(memory, _FIRST_SLOT + 1, 1) == [0]
    assert _words(memory, _FIRST_ENDPOINT, 2) == [1, 1]


def test_without_the_variable_there_is_no_memory() -> None:
    assert proof_memory() is None
