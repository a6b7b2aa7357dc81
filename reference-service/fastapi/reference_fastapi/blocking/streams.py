"""Step 1 before: the synchronous Redis client, called on the loop.

Each piece of work connects anew, and waits by putting the loop's thread to sleep.
"""

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from redis import Redis, ResponseError

from reference_fastapi.blocking.cache import client
from reference_fastapi.runs import QUEUE, STREAM_ENTRIES_MAX, STREAM_TTL_S, StreamConnection


class Streams:
    """Runs in Redis."""

    def __init__(self, url: str) -> None:
        self._url = url

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[StreamConnection]:
        """Open a connection for one piece of a request's work."""
        # A new connection needs no retry; and a claim, an entry or a task must not be sent twice.
        with client(self._url, retries=0) as redis:
            yield Connection(redis)


class Connection:
    """It, and the commands that it takes."""

    def __init__(self, redis: Redis) -> None:
        # The client's types don't know that it decodes.
        self._redis: Any = redis

    async def exists(self, key: str) -> bool:
        """EXISTS."""
        return bool(self._redis.exists(key))

    async def get(self, key: str) -> str | None:
        """GET."""
        return self._redis.get(key)

    async def put(self, key: str, value: str, ttl_s: int) -> None:
        """SET with a life."""
        self._redis.set(key, value, ex=ttl_s)

    async def claim(self, key: str, ttl_s: int) -> bool:
        """SET NX with a life: false if the key is taken."""
        return bool(self._redis.set(key, "1", nx=True, ex=ttl_s))

    async def delete(self, *keys: str) -> None:
        """DEL."""
        self._redis.delete(*keys)

    async def matching(self, pattern: str) -> list[str]:
        """KEYS: Redis looks at all that it has, and answers nobody else meanwhile."""
        return self._redis.keys(pattern)

    async def first_id(self, stream: str) -> str | None:
        """XINFO STREAM: the id of the first entry that is kept."""
        try:
            info = self._redis.xinfo_stream(stream)
        except ResponseError as error:
            # What XINFO alone says of a stream that isn't there; others answer nothing.
            if "no such key" in str(error):
                return None
            raise
        first = info["first-entry"]
        return first[0] if first else None

    async def last_id(self, stream: str) -> str | None:
        """XREVRANGE of one: the id of the last entry."""
        last = self._redis.xrevrange(stream, count=1)
        return last[0][0] if last else None

    async def entries(self, stream: str) -> list[dict[str, str]]:
        """XRANGE: all entries."""
        return [entry for _, entry in self._redis.xrange(stream)]

    async def append(self, stream: str, fields: Mapping[str, str]) -> None:
        """XADD, and EXPIRE: a stream lives from its last entry on."""
        self._redis.xadd(stream, dict(fields), maxlen=STREAM_ENTRIES_MAX, approximate=True)
        self._redis.expire(stream, STREAM_TTL_S)

    async def enqueue(self, task: str) -> None:
        """RPUSH to the workers' queue."""
        self._redis.rpush(QUEUE, task)

    async def pause(self, seconds: float) -> None:
        """Sleep, and the loop with it."""
        time.sleep(seconds)
