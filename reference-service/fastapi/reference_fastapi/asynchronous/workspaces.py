"""Step 3 after: the asynchronous Redis client, awaited."""

from redis.asyncio import Redis

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
