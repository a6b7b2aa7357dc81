"""Step 2c after: a SQLAlchemy `AsyncSession`, awaited."""

from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from reference_fastapi import statements
from reference_fastapi.sharing import Change, NotFoundError, Sharing


class SharingStore:
    """With whom conversations are shared, in PostgreSQL."""

    def __init__(self, sessions: async_sessionmaker[AsyncSession]) -> None:
        self._sessions = sessions

    async def sharing(self, conversation_id: str, owner: str) -> Sharing:
        """Select with whom the caller's conversation is shared."""
        async with self._sessions() as session:
            return await _select(session, conversation_id, owner)

    async def change(self, conversation_id: str, owner: str, change: Change) -> None:
        """Select, update, commit; without the update if there is nothing to write."""
        async with self._sessions.begin() as session:
            changed = change(await _select(session, conversation_id, owner))
            await session.execute(
                statements.UPDATE_SHARING, {**vars(changed), "id": conversation_id}
            )


async def _select(session: AsyncSession, conversation_id: str, owner: str) -> Sharing:
    rows = await session.execute(statements.SELECT_SHARING, {"id": conversation_id, "owner": owner})
    found = rows.one_or_none()
    if found is None:
        raise NotFoundError
    return Sharing(*found)
