"""Step 2a after: a SQLAlchemy `AsyncSession`, awaited."""

from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from reference_fastapi import statements
from reference_fastapi.conversation import NewConversation, fresh_id, opening_message
from reference_fastapi.usage import Usage, Window


class ConversationStore:
    """Users' conversations in PostgreSQL."""

    def __init__(self, sessions: async_sessionmaker[AsyncSession]) -> None:
        self._sessions = sessions

    async def usage(self, uid: str, window: Window) -> Usage:
        """Count the user's messages in one aggregate."""
        async with self._sessions() as session:
            rows = await session.execute(
                statements.USAGE, {"from_s": window.from_s, "to_s": window.to_s, "uid": uid}
            )
            return Usage.from_rows(rows.tuples())

    async def create(self, new: NewConversation) -> None:
        """Select the projects, insert the conversation and its system message."""
        async with self._sessions.begin() as session:
            rows = await session.execute(statements.SELECT_PROJECTS, {"ids": new.project_ids})
            opening = opening_message(new.project_ids, dict(rows.tuples().all()))
            await session.execute(statements.INSERT_CONVERSATION, vars(new))
            await session.execute(
                statements.INSERT_SYSTEM_MESSAGE,
                {"id": fresh_id(), "conversation_id": new.id, "content": opening},
            )
