"""Step 2c before: a SQLAlchemy `Session`, called on the loop."""

from sqlalchemy.orm import Session, sessionmaker

from reference_fastapi import statements
from reference_fastapi.sharing import Change, NotFoundError, Sharing


class SharingStore:
    """With whom conversations are shared, in PostgreSQL."""

    def __init__(self, sessions: sessionmaker[Session]) -> None:
        self._sessions = sessions

    async def sharing(self, conversation_id: str, owner: str) -> Sharing:
        """Select with whom the caller's conversation is shared."""
        with self._sessions() as session:
            return _select(session, conversation_id, owner)

    async def change(self, conversation_id: str, owner: str, change: Change) -> None:
        """Select, update, commit; without the update if there is nothing to write."""
        with self._sessions.begin() as session:
            changed = change(_select(session, conversation_id, owner))
            session.execute(statements.UPDATE_SHARING, {**vars(changed), "id": conversation_id})


def _select(session: Session, conversation_id: str, owner: str) -> Sharing:
    found = session.execute(
        statements.SELECT_SHARING, {"id": conversation_id, "owner": owner}
    ).one_or_none()
    if found is None:
        raise NotFoundError
    return Sharing(*found)
