"""Proof mode: tells a tracer which request a thread works on, through memory that it may read.

`UNSTALL_PROVE=1` in a service's environment turns it on; `unstall prove` sets it. The memory is a
private mapping with the name of a memfd, so that a tracer finds it in `/proc/PID/maps` and a forked
worker gets one of its own. All of it is words of 64 bits, little-endian:

    header     "UNSTPRF1", version 1, number of slots, requests, endpoints, three of 0
    slots      per thread: its id, the serial number of the request whose step runs on it (or 0)
    requests   at serial % number: serial, endpoint + 1 (0: not known yet), steps until it is known
    endpoints  requests, steps, length of the name, the name (`METHOD /route`) in 29 words

A route is known only after a request's first steps, which is why steps name requests.
"""

from __future__ import annotations

import ctypes
import functools
import itertools
import mmap
import os
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from unstall.readings import ThreadMeter

if TYPE_CHECKING:
    from unstall.conservation import Stretch
    from unstall.steps import Steps

VARIABLE = "UNSTALL_PROVE"

MAPPING = "unstall-proof"
MAGIC = int.from_bytes(b"UNSTPRF1", "little")
VERSION = 1
SLOTS, REQUESTS, ENDPOINTS = 64, 4_096, 1_024
HEADER_WORDS, SLOT_WORDS, REQUEST_WORDS, ENDPOINT_WORDS = 8, 2, 3, 32
_NAME_BYTES = 8 * (ENDPOINT_WORDS - 3)
_FIRST_SLOT = HEADER_WORDS
_FIRST_REQUEST = _FIRST_SLOT + SLOTS * SLOT_WORDS
_FIRST_ENDPOINT = _FIRST_REQUEST + REQUESTS * REQUEST_WORDS
WORDS = _FIRST_ENDPOINT + ENDPOINTS * ENDPOINT_WORDS

_PR_SET_PTRACER = 0x5961_6D61
_ANYBODY = ctypes.c_ulong(-1)
_YAMA_SCOPE = Path("/proc/sys/kernel/yama/ptrace_scope")


class ProofMemory:
    """What a tracer reads, and its writer."""

    def __init__(self) -> None:
        descriptor = os.memfd_create(MAPPING, os.MFD_CLOEXEC)
        try:
            os.ftruncate(descriptor, 8 * WORDS)
            kind, may = mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_WRITE
            self._words = memoryview(mmap.mmap(descriptor, 8 * WORDS, kind, may)).cast("Q")
        finally:
            os.close(descriptor)
        for at, word in enumerate((MAGIC, VERSION, SLOTS, REQUESTS, ENDPOINTS)):
            self._words[at] = word
        self._serials = itertools.count(1)
        self._slots = itertools.count()
        self._endpoints: dict[str, int] = {}
        self._lock = threading.Lock()

    def request(self) -> int:
        """Give a new request its number."""
        serial = next(self._serials)
        at = _FIRST_REQUEST + serial % REQUESTS * REQUEST_WORDS
        words = self._words
        words[at], words[at + 1], words[at + 2] = serial, 0, 0
        return serial

    def slot(self) -> int | None:
        """Give the calling thread its place; none is left for the 65th."""
        slot = next(self._slots)
        if slot >= SLOTS:
            return None
        at = _FIRST_SLOT + slot * SLOT_WORDS
        self._words[at + 1] = 0
        self._words[at] = threading.get_native_id()
        return at + 1

    def enter(self, slot: int, serial: int) -> None:
        """Begin a step of a request."""
        self._words[slot] = serial

    def leave(self, slot: int) -> None:
        """End the step that runs, and count it."""
        words = self._words
        serial = words[slot]
        at = _FIRST_REQUEST + serial % REQUESTS * REQUEST_WORDS
        if words[at] == serial:
            endpoint = words[at + 1]
            counted = at + 2 if endpoint == 0 else _endpoint_at(endpoint - 1) + 1
            words[counted] += 1
        # Last, because it says that the step is over and counted.
        words[slot] = 0

    def settle(self, serial: int, name: str) -> None:
        """Learn a request's endpoint."""
        at = _FIRST_REQUEST + serial % REQUESTS * REQUEST_WORDS
        words = self._words
        if words[at] != serial:
            return
        endpoint = self._endpoint(name)
        if endpoint is None:
            return
        counts = _endpoint_at(endpoint)
        words[counts] += 1
        words[counts + 1] += words[at + 2]
        words[at + 1] = endpoint + 1

    def _endpoint(self, name: str) -> int | None:
        with self._lock:
            endpoint = self._endpoints.get(name)
            if endpoint is None and len(self._endpoints) < ENDPOINTS:
                endpoint = self._endpoints[name] = len(self._endpoints)
                self._write_name(_endpoint_at(endpoint) + 2, name.encode()[:_NAME_BYTES])
        return endpoint

    def _write_name(self, at: int, name: bytes) -> None:
        whole = name.ljust(_NAME_BYTES, b"\0")
        for index in range(0, _NAME_BYTES, 8):
            word = int.from_bytes(whole[index : index + 8], "little")
            self._words[at + 1 + index // 8] = word
        # Last, because it says that the name is there.
        self._words[at] = len(name)


def _endpoint_at(endpoint: int) -> int:
    return _FIRST_ENDPOINT + endpoint * ENDPOINT_WORDS


@functools.cache
def proof_memory() -> ProofMemory | None:
    """Give this process's memory, if its environment asks for a proof."""
    if os.environ.get(VARIABLE) != "1" or not sys.platform.startswith("linux"):
        return None
    _allow_tracing()
    return ProofMemory()


class ProvingMeter(ThreadMeter):
    """Tells the tracer whose step runs. It reads no counters: those reads would be calls, too."""

    __slots__ = ("_memory", "_slot")

    def __init__(self, memory: ProofMemory) -> None:
        super().__init__()
        self._memory = memory
        self._slot = memory.slot()

    def begin(self, steps: Steps | None) -> None:
        if self._slot is not None and steps is not None:
            self._memory.enter(self._slot, steps.serial)
        super().begin(steps)

    def end(self) -> Stretch:
        if self._slot is not None:
            self._memory.leave(self._slot)
        return super().end()


def _allow_tracing() -> None:
    """Let anybody of this user trace this process where Yama allows it to parents only."""
    try:
        scope = _YAMA_SCOPE.read_text().strip()
    except OSError:
        return  # no Yama, no need
    if scope == "1":
        # A refusal is told by the tracer, with what to do.
        ctypes.CDLL(None).prctl(_PR_SET_PTRACER, _ANYBODY, 0, 0, 0)
