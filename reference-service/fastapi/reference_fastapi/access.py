"""Who may see a conversation: asked before a run is shown, and moved by no step.

Of the routes that make this check, the original's list of what blocked the loop names Redis
commands and no SQL: it never ran on the loop, before the migration or after it. So both versions
await it, from a pool of its own.
"""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from sqlalchemy import URL
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker, create_async_engine

from reference_fastapi import statements
from reference_fastapi.settings import POOL_KEPT, POOL_OVERFLOW, WAIT_S


class AccessStore:
    """Conversations in PostgreSQL, as far as the check needs them."""

    def __init__(self, sessions: async_sessionmaker[AsyncSession]) -> None:
        self._sessions = sessions

    async def may_read(self, uid: str, conversation_id: str) -> bool | None:
        """Select the conversation and count its messages; `None` if there is none."""
        async with self._sessions() as session:
            may_read: bool | None = await session.scalar(
                statements.SELECT_ACCESS, {"uid": uid, "id": conversation_id}
            )
            if may_read:
                await session.scalar(statements.COUNT_MESSAGES, {"id": conversation_id})
        return may_read


@asynccontextmanager
async def open_access(url: URL) -> AsyncIterator[AccessStore]:
    """Open the check's own pool with the connections that it keeps."""
    engine = create_async_engine(
        url,
        pool_size=POOL_KEPT,
        max_overflow=POOL_OVERFLOW,
        pool_timeout=WAIT_S,
        pool_pre_ping=True,
        connect_args={"connect_timeout": WAIT_S},
    )
    try:
        async with AsyncExitStack() as loans:
            for _ in range(POOL_KEPT):
                await loans.enter_async_context(engine.connect())
        yield AccessStore(async_sessionmaker(engine))
    finally:
        await engine.dispose()
