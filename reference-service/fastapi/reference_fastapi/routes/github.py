"""`GET /github/get-branch-list`: a repository's branches, from the cache."""

from typing import Annotated

from fastapi import APIRouter, HTTPException, Query, status
from pydantic import BaseModel

from reference_fastapi.identity import Caller
from reference_fastapi.stores import StoresDependency
from reference_fastapi.text import Text

router = APIRouter(prefix="/api/v1/github")


class BranchesResponse(BaseModel):
    """All branches that match."""

    branches: list[str]


class BranchPageResponse(BranchesResponse):
    """A page of them."""

    has_next_page: bool
    total_count: int


@router.get("/get-branch-list")
@router.get("/get-branch-list/")
async def branch_list(
    _caller: Caller,
    stores: StoresDependency,
    repo_name: Text,
    limit: Annotated[int | None, Query(ge=1)] = None,
    offset: Annotated[int, Query(ge=0)] = 0,
    search: Text = "",
) -> BranchPageResponse | BranchesResponse:
    """List the branches that match, whole or a page of them."""
    branches = await stores.workspaces.branches(repo_name)
    if branches is None:
        raise HTTPException(status.HTTP_404_NOT_FOUND, f"Repository {repo_name} not found")
    matching = [branch for branch in branches if search.lower() in branch.lower()]
    if limit is None:
        return BranchesResponse(branches=matching[offset:])
    end = offset + limit
    return BranchPageResponse(
        branches=matching[offset:end],
        has_next_page=end < len(matching),
        total_count=len(matching),
    )
