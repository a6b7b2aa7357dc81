"""Redis after: pools of asynchronous connections for all stores."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff, NoBackoff

from reference_fastapi.settings import WAIT_S

_CONNECTIONS_MAX = 50

THREE_ATTEMPTS = Retry(ExponentialBackoff(cap=0.2, base=0.1), 2)
"""With pauses of 0.1 s and 0.2 s, for what may be done twice."""
ONE_ATTEMPT = Retry(NoBackoff(), 0)
"""For what must not: a command whose answer is late may have been done all the same."""


@asynccontextmanager
async def open_redis(url: str, retry: Retry) -> AsyncIterator[Redis]:
    """Open the pool with a warm connection."""
    pool: BlockingConnectionPool = BlockingConnectionPool.from_url(
        url,
        decode_responses=True,
        # The newer one has a greeting, a round trip more per connection than the original makes.
        protocol=2,
        max_connections=_CONNECTIONS_MAX,
        timeout=WAIT_S,
        socket_timeout=WAIT_S,
        socket_connect_timeout=WAIT_S,
        # The client has it per connection, not per command: so a pool for each.
        retry=retry,
    )
    async with Redis.from_pool(pool) as redis:
        await redis.ping()
        yield redis
