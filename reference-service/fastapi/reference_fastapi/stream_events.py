"""The entries of a run's stream, as they lie in Redis and as clients get them."""

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timezone
from enum import Enum
from typing import Any

from reference_fastapi.runs import Run

_LOG = logging.getLogger(__name__)


class RunStatus(str, Enum):
    """How far a run is."""

    QUEUED = "queued"
    RUNNING = "running"
    COMPLETED = "completed"
    ERROR = "error"
    CANCELLED = "cancelled"

    @property
    def is_active(self) -> bool:
        """Whether entries may still come."""
        return self in (RunStatus.QUEUED, RunStatus.RUNNING)

    @classmethod
    def parse(cls, word: str | None) -> "RunStatus | None":
        """Read the word; `None` for one that no worker writes."""
        return next((status for status in cls if status.value == word), None)


@dataclass
class Answer:
    """A piece of an answer, or a whole one: an object of the stream's body."""

    message: str = ""
    citations: list[Any] = field(default_factory=list)
    tool_calls: list[Any] = field(default_factory=list)
    thinking: str | None = None

    def add(self, piece: "Answer") -> None:
        """Add the next piece. A citation counts once however often it is given."""
        self.message += piece.message
        self.citations += [new for new in piece.citations if new not in self.citations]
        self.tool_calls += piece.tool_calls
        if piece.thinking is not None:
            self.thinking = (self.thinking or "") + piece.thinking

    def to_json(self) -> str:
        """Write it as it is sent: one JSON object."""
        return json.dumps(vars(self), ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True)
class End:
    """The last entry, and how the run ended."""

    status: RunStatus


Event = Answer | End
"""What an entry says to a client. One of type `queued` is an empty answer."""


def read(entry: Mapping[str, str]) -> Event | None:
    """Read an entry; `None` for one that clients don't hear of, such as `start`."""
    match entry.get("type"):
        case "queued":
            return Answer()
        case "chunk":
            return Answer(
                entry.get("content", ""),
                _list(entry, "citations_json"),
                _list(entry, "tool_calls_json"),
                # Redis has no null.
                entry.get("thinking") or None,
            )
        case "end":
            # A status of its own invention is no success.
            return End(RunStatus.parse(entry.get("status")) or RunStatus.ERROR)
    return None


def _list(entry: Mapping[str, str], name: str) -> list[Any]:
    """Read a list in JSON; clients of the original get an empty one for a broken one."""
    try:
        values = json.loads(entry.get(name, "[]"))
    except ValueError as error:
        _LOG.warning("the %s of a stream entry is not JSON: %s", name, error)
        return []
    return values if isinstance(values, list) else []


def queued(run: Run) -> dict[str, str]:
    """Make the entry of a run that was handed over."""
    return _entry(run, "queued", RunStatus.QUEUED, "Task queued for processing")


def cancelled(run: Run) -> dict[str, str]:
    """Make the last entry of a run that was stopped."""
    return _entry(run, "end", RunStatus.CANCELLED, "Generation stopped by user")


def _entry(run: Run, kind: str, status: RunStatus, message: str) -> dict[str, str]:
    return {
        "type": kind,
        "conversation_id": run.conversation_id,
        "run_id": run.run_id,
        "created_at": datetime.now(timezone.utc).isoformat(),
        "status": status.value,
        "message": message,
    }
