"""A run: one answer in the making. Its names in Redis, how long they live, and its commands.

The service and its worker (`unstall-reference worker`) meet only in these keys, in the entries of
the stream (`stream_events`) and in the tasks on `QUEUE`.
"""

import re
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Protocol

QUEUE = "agent:runs"
"""The list from which workers take tasks: pushed on the right, taken from the left."""
STREAM_TTL_S = 900
"""Life of a run's stream after its last entry."""
STREAM_ENTRIES_MAX = 1000
"""Entries that a stream keeps, about."""
TASK_TTL_S = 600
"""Life of a run's status and of its task's id."""
CANCEL_TTL_S = 300
"""Life of a request to stop."""
RESERVATION_TTL_S = 120
"""Life of the claim on a run id whose stream doesn't exist yet."""

_GLOB = re.compile(r"[*?\[\]^\\]")
# Clients choose ids of any length, and `int` refuses thousands of digits.
_NUMBERED = re.compile(r"(.*)-\+?0*(\d{1,10})", re.ASCII | re.DOTALL)
_NUMBER_MAX = 2**32 - 1


@dataclass(frozen=True)
class Run:
    """The names of one run: its conversation's id, and its own within it (clients say session)."""

    conversation_id: str
    run_id: str

    @property
    def stream_key(self) -> str:
        """Where its entries are."""
        return self._key("chat:stream")

    @property
    def status_key(self) -> str:
        """Where it is said how far it is."""
        return self._key("task:status")

    @property
    def task_id_key(self) -> str:
        """Where the id of its task is."""
        return self._key("task:id")

    @property
    def cancel_key(self) -> str:
        """Where a request to stop it is put."""
        return self._key("cancel")

    @property
    def reservation_key(self) -> str:
        """Where its id is claimed until its stream exists."""
        return self._key("chat:stream:reservation")

    def _key(self, kind: str) -> str:
        return f"{kind}:{self.conversation_id}:{self.run_id}"

    @property
    def order(self) -> tuple[str, int, str]:
        """The order in which ids were given out, so that `-10` comes after `-9`."""
        numbered = _NUMBERED.fullmatch(self.run_id)
        if numbered is None or int(numbered[2]) > _NUMBER_MAX:
            return self.run_id, 0, self.run_id
        return numbered[1], int(numbered[2]), self.run_id


def streams_pattern(conversation_id: str) -> str:
    """Give the glob of a conversation's streams, as KEYS and SCAN take it."""
    return f"chat:stream:{_GLOB.sub(lambda c: chr(92) + c[0], conversation_id)}:*"


def run_of_stream(conversation_id: str, stream_key: str) -> Run:
    """Give the run whose stream is at one of a conversation's keys."""
    return Run(conversation_id, stream_key.removeprefix(f"chat:stream:{conversation_id}:"))


def base_id(uid: str, session_id: str | None, previous_message_id: str | None) -> str:
    """Give the id that a request asks for: its session, or one of its user and the last message."""
    return session_id or f"conversation:{uid}:{previous_message_id or 'new'}"


class StreamConnection(Protocol):
    """The commands that a request's work on runs is made of: step 1.

    Their order is the same in both versions; only KEYS becomes SCAN.
    """

    async def exists(self, key: str) -> bool:
        """EXISTS."""

    async def get(self, key: str) -> str | None:
        """GET."""

    async def put(self, key: str, value: str, ttl_s: int) -> None:
        """SET with a life."""

    async def claim(self, key: str, ttl_s: int) -> bool:
        """SET NX with a life: false if the key is taken."""

    async def delete(self, *keys: str) -> None:
        """DEL."""

    async def matching(self, pattern: str) -> list[str]:
        """KEYS before step 1, SCAN afterwards; sorted by nothing, a key may come twice."""

    async def first_id(self, stream: str) -> str | None:
        """XINFO STREAM: the id of the first entry that is kept; `None` if it isn't there."""

    async def last_id(self, stream: str) -> str | None:
        """XREVRANGE of one: the id of the last entry."""

    async def entries(self, stream: str) -> list[dict[str, str]]:
        """XRANGE: all entries."""

    async def append(self, stream: str, fields: Mapping[str, str]) -> None:
        """XADD, and EXPIRE: a stream lives from its last entry on."""

    async def enqueue(self, task: str) -> None:
        """RPUSH to the workers' queue."""

    async def pause(self, seconds: float) -> None:
        """Wait, as the original sleeps."""


class Streams(Protocol):
    """Ways to the runs' keys in Redis."""

    def connect(self) -> AbstractAsyncContextManager[StreamConnection]:
        """Give a way for one piece of a request's work.

        Before step 1 it is a connection of its own, opened now, as the original opened one with
        each of its stream managers; afterwards it is a share in a pool.
        """
