"""Before the migration: synchronous clients, called on the event loop.

uvicorn reference_fastapi.blocking:app --port 8001 --timeout-graceful-shutdown 5
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from reference_fastapi.access import open_access
from reference_fastapi.application import create_app
from reference_fastapi.blocking.accounts import AccountStore
from reference_fastapi.blocking.cache import client
from reference_fastapi.blocking.conversations import ConversationStore
from reference_fastapi.blocking.database import open_sessions
from reference_fastapi.blocking.history import HistoryStore
from reference_fastapi.blocking.sharing import SharingStore
from reference_fastapi.blocking.streams import Streams
from reference_fastapi.blocking.workspaces import WorkspaceStore
from reference_fastapi.run_streams import RunStreams
from reference_fastapi.settings import Settings
from reference_fastapi.stores import Stores


@asynccontextmanager
async def open_stores(settings: Settings) -> AsyncIterator[Stores]:
    """Open the stores with warm pools, and close them."""
    with (
        open_sessions(settings.database_url) as sessions,
        client(settings.redis_url, retries=1) as redis,
    ):
        redis.ping()
        async with open_access(settings.database_url) as access:
            yield Stores(
                conversations=ConversationStore(sessions),
                access=access,
                history=HistoryStore(sessions),
                sharing=SharingStore(sessions),
                accounts=AccountStore(sessions),
                streams=Streams(settings.redis_url),
                run_streams=RunStreams(settings),
                workspaces=WorkspaceStore(settings.redis_url, redis),
            )


app = create_app(open_stores)
