"""Signing in through a sign-in service.

The statements are the original's, those included that it makes twice or three times to learn the
same thing: nine SELECTs and three commits for a sign-in that succeeds. Their number is what blocks
the loop before step 2d, so none is saved here.
"""

from dataclasses import dataclass
from uuid import uuid4

from reference_fastapi import email_address
from reference_fastapi.accounts import (
    AccountSession,
    AuditEvent,
    Client,
    Identity,
    NewProvider,
    NewUser,
    PendingLink,
    User,
    has_github,
)


class PersonalAddressError(Exception):
    """There is no account, and the address is a private one."""


class BelongsToAnotherError(Exception):
    """The address is nobody's, but this provider or this uid is somebody's."""


@dataclass(frozen=True)
class SignIn:
    """A sign-in whose token was good; what the provider told is JSON."""

    identity: Identity
    provider_data: str
    display_name: str
    client: Client


@dataclass(frozen=True)
class SignedIn:
    """The account is theirs."""

    user: User
    needs_github_linking: bool


@dataclass(frozen=True)
class NeedsLinking:
    """There is an account with that address, and it was never signed in to this way."""

    user: User
    linking_token: str
    existing_providers: list[str]


@dataclass(frozen=True)
class SignedUp:
    """There was no account; now there is."""

    user: User


Outcome = SignedIn | NeedsLinking | SignedUp


async def sign_in(session: AccountSession, request: SignIn) -> Outcome:
    """Sign in, or make an account."""
    address = request.identity.email
    # The route asks whether the address is a known one; then its service asks again.
    is_known = await session.user_by_email(address) is not None
    if not is_known and email_address.is_personal(address):
        raise PersonalAddressError
    user = await session.user_by_email(address)
    if user is None:
        created = await _create(session, request)
        if created is not None:
            return SignedUp(created)
        # Somebody else was faster, most likely the same user in another tab.
        user = await session.user_by_email(address)
    if user is None:
        raise BelongsToAnotherError
    return await _existing(session, request, user)


async def _existing(session: AccountSession, request: SignIn, user: User) -> Outcome:
    provider_type = request.identity.provider_type
    await session.providers_of(user.uid)
    if await session.provider(user.uid, provider_type) is None:
        return await _ask_for_consent(session, request, user)
    await session.user_by_uid(user.uid)
    await session.providers_of(user.uid)
    if not await has_github(session, user.uid):
        await session.record_login(user.uid)
        event = AuditEvent(user.uid, provider_type, "login_blocked_github", "pending")
        await session.record_event(event, request.client)
        return SignedIn(user, needs_github_linking=True)
    provider = await session.provider(user.uid, provider_type)
    if provider is not None:
        await session.record_use(provider.id)
    await session.record_login(user.uid)
    event = AuditEvent(user.uid, provider_type, "login", "success")
    await session.record_event(event, request.client)
    return SignedIn(user, needs_github_linking=False)


async def _ask_for_consent(session: AccountSession, request: SignIn, user: User) -> NeedsLinking:
    providers = await session.providers_of(user.uid)
    link = PendingLink(
        token=str(uuid4()),
        user_id=user.uid,
        provider_type=request.identity.provider_type,
        provider_uid=request.identity.provider_uid,
        provider_data=request.provider_data,
    )
    await session.add_pending_link(link, request.client)
    event = AuditEvent(user.uid, link.provider_type, "needs_linking", "pending")
    await session.record_event(event, request.client)
    return NeedsLinking(user, link.token, [provider.provider_type for provider in providers])


async def _create(session: AccountSession, request: SignIn) -> User | None:
    """Make an account, unless the uid, the address or the provider is somebody's by now."""
    identity = request.identity
    user = NewUser(
        uid=identity.provider_uid,
        email=identity.email,
        display_name=request.display_name,
        email_verified=True,
    )
    provider = NewProvider(
        user_id=user.uid,
        provider_type=identity.provider_type,
        provider_uid=identity.provider_uid,
        provider_data=request.provider_data,
        is_primary=True,
    )
    if not await session.create_user(user, provider, request.client):
        return None
    event = AuditEvent(user.uid, provider.provider_type, "signup", "success")
    await session.record_event(event, request.client)
    return User(user.uid, user.email, user.display_name)
