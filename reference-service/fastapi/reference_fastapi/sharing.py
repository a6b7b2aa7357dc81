"""With whom a conversation is shared, and how that changes."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass


class NotFoundError(Exception):
    """There is no such conversation, or it isn't the caller's: the two are not distinguished."""

    def __init__(self) -> None:
        super().__init__("Conversation not found")


class NobodyHadAccessError(Exception):
    """None of the addresses to withdraw had access, so nothing was written."""

    def __init__(self) -> None:
        super().__init__("None of these email addresses has access")


@dataclass(frozen=True)
class Sharing:
    """Who may see a conversation: as its row has it."""

    visibility: str
    emails: list[str]


Change = Callable[[Sharing], Sharing]
"""Gives the new state of a conversation's sharing, or raises `NobodyHadAccessError`.

Between reading and writing somebody else may share the same conversation, and the later writer
wins: the service being migrated has no lock here either.
"""


def publish(sharing: Sharing) -> Sharing:
    """Let anybody see the conversation who knows its id. Recipients stay as they are."""
    return Sharing("public", sharing.emails)


def share_with(recipients: Sequence[str]) -> Change:
    """Let only these see the conversation, beside those who already may."""

    def change(sharing: Sharing) -> Sharing:
        return Sharing("private", list(dict.fromkeys([*sharing.emails, *recipients])))

    return change


def withdraw_from(recipients: Sequence[str]) -> Change:
    """Let these see the conversation no longer."""

    def change(sharing: Sharing) -> Sharing:
        emails = [email for email in sharing.emails if email not in recipients]
        if len(emails) == len(sharing.emails):
            raise NobodyHadAccessError
        return Sharing(sharing.visibility, emails)

    return change
