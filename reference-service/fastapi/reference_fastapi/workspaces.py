"""What Redis holds about workspaces and branch lists: keys and values."""

from collections.abc import Callable
from typing import TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError

_T = TypeVar("_T")


class MalformedValueError(Exception):
    """A value that isn't what its key promises."""


class Workspace(BaseModel):
    """A registered workspace."""

    user_id: str
    repo_url: str | None = None


_BRANCHES = TypeAdapter(list[str])


def record_key(workspace_id: str) -> str:
    """Say where a workspace's record is."""
    return f"workspace_tunnel:{workspace_id}"


def socket_key(workspace_id: str) -> str:
    """Say where the id of a workspace's socket is, while it is connected."""
    return f"workspace:socket:{workspace_id}"


def branches_key(repo: str) -> str:
    """Say where a repository's branch list is cached."""
    return f"repo_branches:{repo}"


def parse_workspace(key: str, value: str | bytes | None) -> Workspace | None:
    """Read a workspace's record, if there is one."""
    return _parse(Workspace.model_validate_json, key, value)


def parse_branches(key: str, value: str | bytes | None) -> list[str] | None:
    """Read a branch list, if it is cached."""
    return _parse(_BRANCHES.validate_json, key, value)


def _parse(parse: Callable[[str | bytes], _T], key: str, value: str | bytes | None) -> _T | None:
    if value is None:
        return None
    try:
        return parse(value)
    except ValidationError as error:
        raise MalformedValueError(f"the value of `{key}` in Redis is malformed: {error}") from error
