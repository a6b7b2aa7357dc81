"""Step 2b after: a SQLAlchemy `AsyncSession`, awaited."""

from typing import Any, cast

from sqlalchemy import CursorResult
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from reference_fastapi import statements
from reference_fastapi.conversation import fresh_id


class HistoryStore:
    """What is kept of conversations, in PostgreSQL."""

    def __init__(self, sessions: async_sessionmaker[AsyncSession]) -> None:
        self._sessions = sessions

    async def save_partial(self, uid: str, conversation_id: str, content: str) -> str | None:
        """Insert what an agent had said; `None` if the conversation isn't the user's."""
        message = {
            "id": fresh_id(),
            "content": content,
            "conversation_id": conversation_id,
            "user_id": uid,
        }
        async with self._sessions.begin() as session:
            result = await session.execute(statements.INSERT_PARTIAL_MESSAGE, message)
        return message["id"] if cast("CursorResult[Any]", result).rowcount else None
