"""After the migration: asynchronous clients, awaited.

uvicorn reference_fastapi.asynchronous:app --port 8002 --timeout-graceful-shutdown 5
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from reference_fastapi.access import open_access
from reference_fastapi.application import create_app
from reference_fastapi.asynchronous.accounts import AccountStore
from reference_fastapi.asynchronous.cache import ONE_ATTEMPT, THREE_ATTEMPTS, open_redis
from reference_fastapi.asynchronous.conversations import ConversationStore
from reference_fastapi.asynchronous.database import open_sessions
from reference_fastapi.asynchronous.history import HistoryStore
from reference_fastapi.asynchronous.sharing import SharingStore
from reference_fastapi.asynchronous.streams import Streams
from reference_fastapi.asynchronous.workspaces import WorkspaceStore
from reference_fastapi.run_streams import RunStreams
from reference_fastapi.settings import Settings
from reference_fastapi.stores import Stores


@asynccontextmanager
async def open_stores(settings: Settings) -> AsyncIterator[Stores]:
    """Open the stores with warm pools, and close them."""
    async with (
        open_sessions(settings.database_url) as sessions,
        open_redis(settings.redis_url, THREE_ATTEMPTS) as redis,
        open_redis(settings.redis_url, ONE_ATTEMPT) as redis_once,
        open_access(settings.database_url) as access,
    ):
        yield Stores(
            conversations=ConversationStore(sessions),
            access=access,
            history=HistoryStore(sessions),
            sharing=SharingStore(sessions),
            accounts=AccountStore(sessions),
            streams=Streams(redis, redis_once),
            run_streams=RunStreams(settings),
            workspaces=WorkspaceStore(redis),
        )


app = create_app(open_stores)
