"""Step 3 after: the asynchronous Redis client, awaited."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from redis.asyncio import BlockingConnectionPool, Redis
from redis.asyncio.retry import Retry
from redis.backoff import ExponentialBackoff

from reference_fastapi.settings import WAIT_S
from reference_fastapi.workspaces import (
    Workspace,
    branches_key,
    parse_branches,
    parse_workspace,
    record_key,
    socket_key,
)

_CONNECTIONS_MAX = 50


class WorkspaceStore:
    """Workspaces and branch lists in Redis."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis

    async def record(self, workspace_id: str) -> Workspace | None:
        """GET the workspace's record, if it is registered."""
        key = record_key(workspace_id)
        return parse_workspace(key, await self._redis.get(key))

    async def socket_online(self, workspace_id: str) -> bool:
        """Tell whether its socket's key EXISTS."""
        return bool(await self._redis.exists(socket_key(workspace_id)))

    async def branches(self, repo: str) -> list[str] | None:
        """GET the repository's branches, if they are cached."""
        key = branches_key(repo)
        return parse_branches(key, await self._redis.get(key))


@asynccontextmanager
async def open_workspaces(url: str) -> AsyncIterator[WorkspaceStore]:
    """Open the shared client with a warm connection."""
    async with Redis.from_pool(_pool(url)) as redis:
        await redis.ping()
        yield WorkspaceStore(redis)


def _pool(url: str) -> BlockingConnectionPool:
    pool: BlockingConnectionPool = BlockingConnectionPool.from_url(
        url,
        # The newer one has a greeting, a round trip more per connection than the original makes.
        protocol=2,
        decode_responses=True,
        max_connections=_CONNECTIONS_MAX,
        timeout=WAIT_S,
        socket_timeout=WAIT_S,
        socket_connect_timeout=WAIT_S,
        # Three attempts, after pauses of 0.1 s and 0.2 s.
        retry=Retry(ExponentialBackoff(cap=0.2, base=0.1), 2),
    )
    return pool
