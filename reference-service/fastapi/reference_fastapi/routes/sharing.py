"""`POST /conversations/share`, `GET …/shared-emails` and `DELETE …/access`."""

from collections.abc import Sequence
from enum import Enum

from fastapi import APIRouter, HTTPException, status
from pydantic import BaseModel

from reference_fastapi import email_address
from reference_fastapi.identity import Caller
from reference_fastapi.sharing import publish, share_with, withdraw_from
from reference_fastapi.stores import StoresDependency
from reference_fastapi.text import Text

router = APIRouter(prefix="/api/v1/conversations")


class Visibility(str, Enum):
    """Who may see a conversation."""

    PRIVATE = "private"
    PUBLIC = "public"


class ShareRequest(BaseModel):
    """What to share, and with whom; a share is private unless it says otherwise."""

    conversation_id: Text
    recipientEmails: list[Text] | None = None
    visibility: Visibility | None = None


class ShareResponse(BaseModel):
    """What was shared."""

    message: str
    sharedID: str


class AccessRequest(BaseModel):
    """Who shall see it no longer."""

    emails: list[Text]


class AccessResponse(BaseModel):
    """That they don't."""

    message: str


@router.post("/share", status_code=status.HTTP_201_CREATED)
async def share(caller: Caller, stores: StoresDependency, body: ShareRequest) -> ShareResponse:
    """Share a conversation with some, or with everybody."""
    recipients = _addresses(body.recipientEmails or [])
    change = publish if body.visibility is Visibility.PUBLIC else share_with(recipients)
    await stores.sharing.change(body.conversation_id, caller, change)
    return ShareResponse(message="Conversation shared successfully.", sharedID=body.conversation_id)


@router.get("/{conversation_id}/shared-emails")
async def shared_emails(
    caller: Caller, stores: StoresDependency, conversation_id: Text
) -> list[str]:
    """Tell with whom it is shared."""
    sharing = await stores.sharing.sharing(conversation_id, caller)
    return sharing.emails


@router.delete("/{conversation_id}/access")
async def withdraw(
    caller: Caller, stores: StoresDependency, conversation_id: Text, body: AccessRequest
) -> AccessResponse:
    """Withdraw it from some."""
    if not body.emails:
        raise HTTPException(status.HTTP_400_BAD_REQUEST, "No email address given")
    change = withdraw_from(_addresses(body.emails))
    await stores.sharing.change(conversation_id, caller, change)
    return AccessResponse(message="Access removed successfully.")


def _addresses(texts: Sequence[str]) -> Sequence[str]:
    for text in texts:
        if not email_address.is_address(text):
            raise HTTPException(status.HTTP_400_BAD_REQUEST, f"Invalid email address: {text}")
    return texts
