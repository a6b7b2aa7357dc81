"""Accounts, the ways to sign in to them, and the statements of one request about them."""

from dataclasses import dataclass
from typing import Any, Protocol

from reference_fastapi import email_address

GITHUB = "firebase_github"
"""The provider type of a linked GitHub account."""
EMAIL_PASSWORD = "firebase_email_password"
"""The provider type of an address with a password."""

_SERVICES = {"azure", "google", "okta", "saml"}
_TOKEN_PREFIX = "id-token-"


@dataclass(frozen=True)
class User:
    """An account."""

    uid: str
    email: str
    display_name: str | None


@dataclass(frozen=True)
class Provider:
    """A way to sign in to an account, as its owner may see it. Times are RFC 3339, UTC."""

    id: str
    user_id: str
    provider_type: str
    provider_uid: str
    provider_data: str | None
    is_primary: bool
    linked_at: str
    last_used_at: str | None


@dataclass(frozen=True)
class ProviderKey:
    """Which provider a lookup found, and whose it is."""

    id: str
    user_id: str


@dataclass(frozen=True)
class NewUser:
    """An account to be made."""

    uid: str
    email: str
    display_name: str
    email_verified: bool


@dataclass(frozen=True)
class NewProvider:
    """A provider to be linked; what it told is JSON."""

    user_id: str
    provider_type: str
    provider_uid: str
    provider_data: str
    is_primary: bool


@dataclass(frozen=True)
class PendingLink:
    """A provider that waits for its user's consent, which has to show the token."""

    token: str
    user_id: str
    provider_type: str
    provider_uid: str
    provider_data: str


@dataclass(frozen=True)
class AuditEvent:
    """A line of the audit log."""

    user_id: str
    provider_type: str
    event_type: str
    status: str


@dataclass(frozen=True)
class Client:
    """Who asked, for the audit log."""

    ip: str
    user_agent: str | None


@dataclass(frozen=True)
class Identity:
    """What the token of a sign-in service vouches for."""

    provider_type: str
    provider_uid: str
    email: str


def verify(service: str, token: str) -> Identity | None:
    """Check a token of a sign-in service, in development mode.

    A real service checks a signature against keys that it keeps, which costs no I/O. This one runs
    on private servers and trusts any token `id-token-<address>`, so that a scenario can write one.
    """
    service = service.lower()
    if service not in _SERVICES or not token.startswith(_TOKEN_PREFIX):
        return None
    address = email_address.normalised(token.removeprefix(_TOKEN_PREFIX))
    if not email_address.is_address(address):
        return None
    return Identity(f"sso_{service}", f"{service}:{address}", address)


class AccountSession(Protocol):
    """A database session for the statements of one request: step 2d."""

    async def user_by_uid(self, uid: str) -> User | None:
        """SELECT the account, if there is one."""

    async def user_by_email(self, email: str) -> User | None:
        """SELECT the account with that address, if there is one."""

    async def providers_of(self, uid: str) -> list[Provider]:
        """SELECT all ways to sign in to an account, the primary one first."""

    async def provider(self, uid: str, provider_type: str) -> ProviderKey | None:
        """SELECT an account's provider of a type, if it has one."""

    async def provider_by_uid(self, provider_type: str, provider_uid: str) -> ProviderKey | None:
        """SELECT whoever has that account at a provider."""

    async def create_user(self, user: NewUser, provider: NewProvider, client: Client) -> bool:
        """INSERT an account with its first provider, COMMIT; false if one of them is taken."""

    async def add_provider(self, provider: NewProvider, client: Client) -> bool:
        """INSERT a further provider, COMMIT; false if it is somebody's already."""

    async def add_pending_link(self, link: PendingLink, client: Client) -> None:
        """INSERT a provider that waits for its user's consent, COMMIT."""

    async def record_use(self, provider_id: str) -> None:
        """UPDATE when the provider was used, COMMIT."""

    async def record_login(self, uid: str) -> None:
        """UPDATE when the user signed in, COMMIT."""

    async def record_event(self, event: AuditEvent, client: Client) -> None:
        """INSERT a line of the audit log, COMMIT."""


async def has_github(session: AccountSession, uid: str) -> bool:
    """Tell whether GitHub is linked. It asks for the account first, as the original does."""
    user = await session.user_by_uid(uid)
    return user is not None and await session.provider(uid, GITHUB) is not None


def text_of(data: dict[str, Any], field: str) -> str | None:
    """Give a field of what a provider told, if it is a text."""
    value = data.get(field)
    return value if isinstance(value, str) else None
