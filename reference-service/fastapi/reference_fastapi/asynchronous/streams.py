"""Step 1 after: the asynchronous Redis client, awaited, on connections of the pools."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

from redis import ResponseError
from redis.asyncio import Redis

from reference_fastapi.runs import QUEUE, STREAM_ENTRIES_MAX, STREAM_TTL_S, StreamConnection

_SCAN_COUNT = 100
"""Keys that one SCAN looks at, about."""


class Streams:
    """Runs in Redis."""

    def __init__(self, redis: Redis, once: Redis) -> None:
        self._redis = redis
        self._once = once

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[StreamConnection]:
        """Share the pools: each command takes a connection for as long as it runs."""
        yield Connection(self._redis, self._once)


class Connection:
    """The pools, and the commands that they take.

    A claim, an entry and a task go through `once`: a second attempt would find the claim taken by
    the first, or run an agent twice.
    """

    def __init__(self, redis: Redis, once: Redis) -> None:
        # The client's types don't know that it decodes.
        self._redis: Any = redis
        self._once: Any = once

    async def exists(self, key: str) -> bool:
        """EXISTS."""
        return bool(await self._redis.exists(key))

    async def get(self, key: str) -> str | None:
        """GET."""
        return await self._redis.get(key)

    async def put(self, key: str, value: str, ttl_s: int) -> None:
        """SET with a life."""
        await self._redis.set(key, value, ex=ttl_s)

    async def claim(self, key: str, ttl_s: int) -> bool:
        """SET NX with a life: false if the key is taken."""
        return bool(await self._once.set(key, "1", nx=True, ex=ttl_s))

    async def delete(self, *keys: str) -> None:
        """DEL."""
        await self._redis.delete(*keys)

    async def matching(self, pattern: str) -> list[str]:
        """SCAN: Redis looks at a hundred keys at a time, and answers others in between."""
        return [key async for key in self._redis.scan_iter(pattern, count=_SCAN_COUNT)]

    async def first_id(self, stream: str) -> str | None:
        """XINFO STREAM: the id of the first entry that is kept."""
        try:
            info = await self._redis.xinfo_stream(stream)
        except ResponseError as error:
            # What XINFO alone says of a stream that isn't there; others answer nothing.
            if "no such key" in str(error):
                return None
            raise
        first = info["first-entry"]
        return first[0] if first else None

    async def last_id(self, stream: str) -> str | None:
        """XREVRANGE of one: the id of the last entry."""
        last = await self._redis.xrevrange(stream, count=1)
        return last[0][0] if last else None

    async def entries(self, stream: str) -> list[dict[str, str]]:
        """XRANGE: all entries."""
        return [entry for _, entry in await self._redis.xrange(stream)]

    async def append(self, stream: str, fields: Mapping[str, str]) -> None:
        """XADD and EXPIRE, in one piece.

        A client that went away between the two would leave a stream that never expires.
        """
        async with self._once.pipeline(transaction=False) as pair:
            pair.xadd(stream, dict(fields), maxlen=STREAM_ENTRIES_MAX, approximate=True)
            pair.expire(stream, STREAM_TTL_S)
            await pair.execute()

    async def enqueue(self, task: str) -> None:
        """RPUSH to the workers' queue."""
        await self._once.rpush(QUEUE, task)

    async def pause(self, seconds: float) -> None:
        """Wait, and leave the loop to others."""
        await asyncio.sleep(seconds)
