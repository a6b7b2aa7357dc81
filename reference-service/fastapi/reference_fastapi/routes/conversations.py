"""`POST /conversations`: a new conversation, after the usage check."""

from collections.abc import Iterator
from enum import Enum
from typing import Annotated

from fastapi import APIRouter, Depends, HTTPException, status
from pydantic import BaseModel, Field

from reference_fastapi.conversation import NewConversation, fresh_id
from reference_fastapi.identity import Caller
from reference_fastapi.stores import Stores, StoresDependency
from reference_fastapi.text import Text
from reference_fastapi.usage import Window

router = APIRouter(prefix="/api/v1/conversations")


class Status(str, Enum):
    """Which lists show a conversation."""

    ACTIVE = "active"
    ARCHIVED = "archived"
    DELETED = "deleted"


class ConversationRequest(BaseModel):
    """What a client sends; whose conversation it becomes says the token."""

    user_id: Text
    title: Text
    status: Status
    project_ids: Annotated[list[Text], Field(min_length=1)]
    agent_ids: list[Text]


class ConversationResponse(BaseModel):
    """What it gets back."""

    message: str
    conversation_id: str


def take_slot() -> Iterator[None]:
    """Pass through one of the server's 40 worker threads.

    The original opens its database session in a synchronous dependency like this one, which needs
    a free thread, before and after the migration: idle streams, which hold one each, stall it.
    """
    yield


async def refuse_over_limit(stores: Stores, uid: str) -> None:
    """Check the usage, as every route does that costs a message."""
    usage = await stores.conversations.usage(uid, Window.last_thirty_days())
    if usage.limit is not None and usage.total >= usage.limit:
        raise HTTPException(
            status.HTTP_402_PAYMENT_REQUIRED,
            f"Usage limit reached: {usage.total} of {usage.limit} messages in 30 days",
        )


@router.post("", dependencies=[Depends(take_slot)])
async def create(
    caller: Caller, stores: StoresDependency, body: ConversationRequest, hidden: bool = False
) -> ConversationResponse:
    """Create a conversation."""
    await refuse_over_limit(stores, caller)
    new = NewConversation(
        id=fresh_id(),
        user_id=caller,
        title=body.title,
        # A hidden conversation is one that the lists of active ones don't show.
        status="archived" if hidden else body.status.value,
        project_ids=body.project_ids,
        agent_ids=body.agent_ids,
    )
    await stores.conversations.create(new)
    return ConversationResponse(
        message="Conversation created successfully.", conversation_id=new.id
    )
