"""Step 3 before: the synchronous Redis client, called on the loop."""

from redis import Redis

from reference_fastapi.blocking.cache import client
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
        with client(self._url, retries=0) as redis:
            redis.ping()
            return parse_branches(key, redis.get(key))
