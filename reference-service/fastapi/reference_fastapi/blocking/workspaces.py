"""Step 3 before: the synchronous Redis client, called on the loop."""

from collections.abc import Iterator
from contextlib import contextmanager

from redis import Redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from reference_fastapi.settings import WAIT_S
from reference_fastapi.workspaces import (
    Workspace,
    branches_key,
    parse_branches,
    parse_workspace,
    record_key,
    socket_key,
)


class WorkspaceStore:
    """Workspaces and branch lists in Redis."""

    def __init__(self, url: str, redis: Redis) -> None:
        self._url = url
        self._redis = redis

    async def record(self, workspace_id: str) -> Workspace | None:
        """GET the workspace's record, if it is registered."""
        key = record_key(workspace_id)
        return parse_workspace(key, self._redis.get(key))

    async def socket_online(self, workspace_id: str) -> bool:
        """Tell whether its socket's key EXISTS."""
        return bool(self._redis.exists(socket_key(workspace_id)))

    async def branches(self, repo: str) -> list[str] | None:
        """GET the repository's branches. The original connects anew for each, and pings."""
        key = branches_key(repo)
        with _client(self._url) as redis:
            redis.ping()
            return parse_branches(key, redis.get(key))


@contextmanager
def open_workspaces(url: str) -> Iterator[WorkspaceStore]:
    """Open the shared client with a warm connection."""
    with _client(url) as redis:
        redis.ping()
        yield WorkspaceStore(url, redis)


def _client(url: str) -> Redis:
    return Redis.from_url(
        url,
        # The newer one has a greeting, a round trip more per connection than the original makes.
        protocol=2,
        decode_responses=True,
        socket_timeout=WAIT_S,
        socket_connect_timeout=WAIT_S,
        # Once more, for a connection that the server closed meanwhile.
        retry=Retry(NoBackoff(), 1),
    )
