"""What the routes need of the servers behind the service. Each version implements it once.

Every method is a coroutine in both versions. In the blocking one its body never awaits: the loop
stands still until the server has answered, as it does wherever a synchronous client is called in
an `async def` route.
"""

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Annotated, Protocol

from fastapi import Depends, Request

from reference_fastapi.access import AccessStore
from reference_fastapi.accounts import AccountSession
from reference_fastapi.conversation import NewConversation
from reference_fastapi.run_streams import RunStreams
from reference_fastapi.runs import Streams
from reference_fastapi.settings import Settings
from reference_fastapi.sharing import Change, Sharing
from reference_fastapi.usage import Usage, Window
from reference_fastapi.workspaces import Workspace


class NotMigratedError(Exception):
    """The database lacks its tables."""

    def __init__(self) -> None:
        super().__init__(
            "the database has no table `conversations`; run `unstall-reference migrate` and then "
            "`unstall-reference seed`"
        )


class Conversations(Protocol):
    """New conversations and the usage check before them: step 2a."""

    async def usage(self, uid: str, window: Window) -> Usage:
        """Count the user's messages in one aggregate."""

    async def create(self, new: NewConversation) -> None:
        """Select the projects, insert the conversation and its system message."""


class History(Protocol):
    """What a stopped run had said: step 2b."""

    async def save_partial(self, uid: str, conversation_id: str, content: str) -> str | None:
        """Insert what an agent had said; `None` if the conversation isn't the user's."""


class SharingOfConversations(Protocol):
    """With whom conversations are shared: step 2c."""

    async def sharing(self, conversation_id: str, owner: str) -> Sharing:
        """Select with whom the caller's conversation is shared."""

    async def change(self, conversation_id: str, owner: str, change: Change) -> None:
        """Select, update, commit; without the update if there is nothing to write."""


class Accounts(Protocol):
    """Accounts and the ways to sign in to them: step 2d."""

    def session(self) -> AbstractAsyncContextManager[AccountSession]:
        """Take a connection for the statements of one request."""


class Workspaces(Protocol):
    """Records of workspaces, their sockets, and cached branch lists: step 3."""

    async def record(self, workspace_id: str) -> Workspace | None:
        """GET the workspace's record, if it is registered."""

    async def socket_online(self, workspace_id: str) -> bool:
        """Tell whether its socket's key EXISTS."""

    async def branches(self, repo: str) -> list[str] | None:
        """GET the repository's branches, if they are cached."""


@dataclass(frozen=True)
class Stores:
    """One version of every store; the same access check and run streams in both."""

    access: AccessStore
    conversations: Conversations
    history: History
    sharing: SharingOfConversations
    accounts: Accounts
    streams: Streams
    run_streams: RunStreams
    workspaces: Workspaces


OpenStores = Callable[[Settings], AbstractAsyncContextManager[Stores]]
"""Opens a version's stores with warm pools, and closes them."""


async def _stores(request: Request) -> Stores:
    # The application's state has no type; `application` put it there.
    stores: Stores = request.state.stores
    return stores


StoresDependency = Annotated[Stores, Depends(_stores)]
"""The stores of the version that serves the request."""
