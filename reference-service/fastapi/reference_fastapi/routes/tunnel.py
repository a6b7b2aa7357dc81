"""`GET /tunnel/workspace/…`: a workspace's record, and whether its socket is connected."""

import re

from fastapi import APIRouter, HTTPException, status
from pydantic import BaseModel

from reference_fastapi.identity import Caller
from reference_fastapi.stores import Stores, StoresDependency

router = APIRouter(prefix="/api/v1/tunnel/workspace")

_WORKSPACE_ID = re.compile("[0-9a-f]{16}")


class WorkspaceResponse(BaseModel):
    """A workspace; one that isn't registered has no repository."""

    workspace_id: str
    repo_url: str | None
    socket_online: bool


class SocketStatusResponse(BaseModel):
    """Only whether its socket is connected."""

    workspace_id: str
    online: bool


@router.get("/{workspace_id}")
async def workspace(
    caller: Caller, stores: StoresDependency, workspace_id: str
) -> WorkspaceResponse:
    """Tell what is known of a workspace."""
    repo_url, online = await _look_up(stores, caller, workspace_id)
    return WorkspaceResponse(workspace_id=workspace_id, repo_url=repo_url, socket_online=online)


@router.get("/{workspace_id}/socket-status")
async def socket_status(
    caller: Caller, stores: StoresDependency, workspace_id: str
) -> SocketStatusResponse:
    """Tell whether its socket is connected."""
    _, online = await _look_up(stores, caller, workspace_id)
    return SocketStatusResponse(workspace_id=workspace_id, online=online)


async def _look_up(stores: Stores, caller: str, workspace_id: str) -> tuple[str | None, bool]:
    if not _WORKSPACE_ID.fullmatch(workspace_id):
        raise HTTPException(
            status.HTTP_400_BAD_REQUEST, "workspace_id must be 16 lower-case hex digits"
        )
    record = await stores.workspaces.record(workspace_id)
    # Somebody else's workspace is not distinguished from none: its existence is theirs to tell.
    if record is not None and record.user_id != caller:
        raise HTTPException(status.HTTP_404_NOT_FOUND, "Workspace not found")
    online = await stores.workspaces.socket_online(workspace_id)
    return (record.repo_url if record else None), online
