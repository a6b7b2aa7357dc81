"""Step 2a before: a SQLAlchemy `Session`, called on the loop."""

from sqlalchemy.orm import Session, sessionmaker

from reference_fastapi import statements
from reference_fastapi.conversation import NewConversation, fresh_id, opening_message
from reference_fastapi.usage import Usage, Window


class ConversationStore:
    """Users' conversations in PostgreSQL."""

    def __init__(self, sessions: sessionmaker[Session]) -> None:
        self._sessions = sessions

    async def usage(self, uid: str, window: Window) -> Usage:
        """Count the user's messages in one aggregate."""
        with self._sessions() as session:
            rows = session.execute(
                statements.USAGE, {"from_s": window.from_s, "to_s": window.to_s, "uid": uid}
            )
            return Usage.from_rows(rows.tuples())

    async def create(self, new: NewConversation) -> None:
        """Select the projects, insert the conversation and its system message."""
        with self._sessions.begin() as session:
            rows = session.execute(statements.SELECT_PROJECTS, {"ids": new.project_ids})
            opening = opening_message(new.project_ids, dict(rows.tuples().all()))
            session.execute(statements.INSERT_CONVERSATION, vars(new))
            session.execute(
                statements.INSERT_SYSTEM_MESSAGE,
                {"id": fresh_id(), "conversation_id": new.id, "content": opening},
            )
