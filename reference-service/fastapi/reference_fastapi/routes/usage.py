"""`GET /usage/usage`: what the caller used between two dates."""

from datetime import datetime, timezone

from fastapi import APIRouter
from pydantic import BaseModel

from reference_fastapi.identity import Caller
from reference_fastapi.stores import StoresDependency
from reference_fastapi.usage import Window

router = APIRouter(prefix="/api/v1/usage")


class UsageResponse(BaseModel):
    """The caller's messages by agent, and in all."""

    total_human_messages: int
    agent_message_counts: dict[str, int]


@router.get("/usage")
async def usage(
    caller: Caller, stores: StoresDependency, start_date: datetime, end_date: datetime
) -> UsageResponse:
    """Count the caller's messages."""
    window = Window(_seconds(start_date), _seconds(end_date))
    used = await stores.conversations.usage(caller, window)
    return UsageResponse(
        total_human_messages=used.total, agent_message_counts=used.messages_by_agent
    )


def _seconds(moment: datetime) -> float:
    """Seconds since 1970; a moment without an offset is in UTC."""
    return (moment if moment.tzinfo else moment.replace(tzinfo=timezone.utc)).timestamp()
