"""Step 2d after: a SQLAlchemy `AsyncSession`, awaited."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, cast

from sqlalchemy import CursorResult, TextClause
from sqlalchemy.ext.asyncio import AsyncSession, async_sessionmaker

from reference_fastapi import statements
from reference_fastapi.accounts import (
    AccountSession,
    AuditEvent,
    Client,
    NewProvider,
    NewUser,
    PendingLink,
    Provider,
    ProviderKey,
    User,
)
from reference_fastapi.conversation import fresh_id


class AccountStore:
    """Accounts in PostgreSQL."""

    def __init__(self, sessions: async_sessionmaker[AsyncSession]) -> None:
        self._sessions = sessions

    @asynccontextmanager
    async def session(self) -> AsyncIterator[AccountSession]:
        """Take a connection for the statements of one request."""
        async with self._sessions() as session:
            yield Accounts(session)


class Accounts:
    """The statements of one request."""

    def __init__(self, session: AsyncSession) -> None:
        self._session = session

    async def user_by_uid(self, uid: str) -> User | None:
        """SELECT the account, if there is one."""
        rows = await self._select(statements.SELECT_USER_BY_UID, uid=uid)
        return User(*rows[0]) if rows else None

    async def user_by_email(self, email: str) -> User | None:
        """SELECT the account with that address, if there is one."""
        rows = await self._select(statements.SELECT_USER_BY_EMAIL, email=email)
        return User(*rows[0]) if rows else None

    async def providers_of(self, uid: str) -> list[Provider]:
        """SELECT all ways to sign in to an account, the primary one first."""
        rows = await self._select(statements.SELECT_PROVIDERS, uid=uid)
        return [Provider(*row) for row in rows]

    async def provider(self, uid: str, provider_type: str) -> ProviderKey | None:
        """SELECT an account's provider of a type, if it has one."""
        rows = await self._select(statements.SELECT_PROVIDER, uid=uid, provider_type=provider_type)
        return ProviderKey(*rows[0]) if rows else None

    async def provider_by_uid(self, provider_type: str, provider_uid: str) -> ProviderKey | None:
        """SELECT whoever has that account at a provider."""
        rows = await self._select(
            statements.SELECT_PROVIDER_BY_UID,
            provider_type=provider_type,
            provider_uid=provider_uid,
        )
        return ProviderKey(*rows[0]) if rows else None

    async def create_user(self, user: NewUser, provider: NewProvider, client: Client) -> bool:
        """INSERT an account with its first provider, COMMIT; false if one of them is taken."""
        inserted = await self._write(statements.INSERT_USER, **vars(user))
        if inserted:
            inserted = await self._insert_provider(provider, client)
        return await self._commit_if(inserted > 0)

    async def add_provider(self, provider: NewProvider, client: Client) -> bool:
        """INSERT a further provider, COMMIT; false if it is somebody's already."""
        return await self._commit_if(await self._insert_provider(provider, client) > 0)

    async def add_pending_link(self, link: PendingLink, client: Client) -> None:
        """INSERT a provider that waits for its user's consent, COMMIT."""
        await self._write(statements.INSERT_PENDING_LINK, **vars(link), **vars(client))
        await self._session.commit()

    async def record_use(self, provider_id: str) -> None:
        """UPDATE when the provider was used, COMMIT."""
        await self._write(statements.UPDATE_PROVIDER_USED, id=provider_id)
        await self._session.commit()

    async def record_login(self, uid: str) -> None:
        """UPDATE when the user signed in, COMMIT."""
        await self._write(statements.UPDATE_LAST_LOGIN, uid=uid)
        await self._session.commit()

    async def record_event(self, event: AuditEvent, client: Client) -> None:
        """INSERT a line of the audit log, COMMIT."""
        await self._write(
            statements.INSERT_AUDIT_EVENT, id=fresh_id(), **vars(event), **vars(client)
        )
        await self._session.commit()

    async def _insert_provider(self, provider: NewProvider, client: Client) -> int:
        return await self._write(
            statements.INSERT_PROVIDER, id=fresh_id(), **vars(provider), **vars(client)
        )

    async def _commit_if(self, inserted: bool) -> bool:
        """Commit, unless an INSERT wrote nothing: it found its key taken."""
        if inserted:
            await self._session.commit()
        else:
            await self._session.rollback()
        return inserted

    async def _select(self, statement: TextClause, **parameters: object) -> list[tuple[Any, ...]]:
        rows = await self._session.execute(statement, parameters)
        return [tuple(row) for row in rows]

    async def _write(self, statement: TextClause, **parameters: object) -> int:
        """Give how many rows were written."""
        result = await self._session.execute(statement, parameters)
        return cast("CursorResult[Any]", result).rowcount
