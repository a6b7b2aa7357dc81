"""A new conversation: what is asked for, what is written, and the message that opens it."""

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID


@dataclass(frozen=True)
class NewConversation:
    """A conversation that passed validation."""

    id: str
    user_id: str
    title: str
    status: str
    project_ids: list[str]
    agent_ids: list[str]


class ProjectsMissingError(Exception):
    """Nothing was written: these projects don't exist."""

    def __init__(self, ids: list[str]) -> None:
        super().__init__(f"No such project: {', '.join(ids)}")


def fresh_id() -> str:
    """Give a UUID of version 7, so that ids sort by time (RFC 9562, section 5.7)."""
    value = (time.time_ns() // 1_000_000) << 80 | secrets.randbits(80)
    value = value & ~(0xF << 76) | 7 << 76  # version
    value = value & ~(0b11 << 62) | 0b10 << 62  # variant
    return str(UUID(int=value))


def opening_message(asked: Sequence[str], found: dict[str, str]) -> str:
    """Name the repositories of the projects that were asked for, if all were found."""
    missing = [project for project in asked if project not in found]
    if missing:
        raise ProjectsMissingError(missing)
    # In the order asked for: the database gives rows in any order.
    return f"Ask anything about {', '.join(found[project] for project in asked)}."
