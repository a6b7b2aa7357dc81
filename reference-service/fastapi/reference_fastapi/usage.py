"""How much of their plan a user has used, and what the plan allows."""

import time
from collections.abc import Iterable
from dataclasses import dataclass

_CHECK_WINDOW_S = 30 * 24 * 3600.0
_LIMITS = {"free": 50, "pro": 500, "unlimited": None}


@dataclass(frozen=True)
class Window:
    """A span of time, ends included, in seconds since 1970."""

    from_s: float
    to_s: float

    @classmethod
    def last_thirty_days(cls) -> "Window":
        """Give the window of the usage check."""
        now_s = time.time()
        return cls(now_s - _CHECK_WINDOW_S, now_s)


@dataclass(frozen=True)
class Usage:
    """What a user has used."""

    plan: str
    messages_by_agent: dict[str, int]

    @classmethod
    def from_rows(cls, rows: Iterable[tuple[str, str | None, int | None]]) -> "Usage":
        """Gather the aggregate's rows. A user without a record has none, and the free plan."""
        plan = "free"
        messages_by_agent = {}
        for row_plan, agent, messages in rows:
            plan = row_plan
            if agent is not None and messages is not None:
                messages_by_agent[agent] = messages
        return cls(plan, dict(sorted(messages_by_agent.items())))

    @property
    def total(self) -> int:
        """Messages in all; a conversation with n agents counts n times."""
        return sum(self.messages_by_agent.values())

    @property
    def limit(self) -> int | None:
        """Messages at which the next one is refused; a plan that is not known gets the least."""
        return _LIMITS.get(self.plan, _LIMITS["free"])
