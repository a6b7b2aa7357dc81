"""Signing up, and what else the same route does.

It links GitHub to an account, lets linked GitHub accounts in, and greets accounts that exist.
"""

from dataclasses import dataclass

from reference_fastapi import email_address
from reference_fastapi.accounts import (
    EMAIL_PASSWORD,
    GITHUB,
    AccountSession,
    AuditEvent,
    Client,
    NewProvider,
    NewUser,
    has_github,
)


class NothingToLinkToError(Exception):
    """There is no account to link GitHub to."""


class UnknownGitHubError(Exception):
    """A GitHub account that nobody has linked."""


class GitHubOfAnotherError(Exception):
    """The GitHub account is linked to somebody else's account."""


class EmailOfAnotherError(Exception):
    """The address is another account's."""


@dataclass(frozen=True)
class GitHub:
    """A GitHub account, and the account to link it to, if it is to be linked."""

    provider_uid: str
    link_to: str | None


@dataclass(frozen=True)
class SignUp:
    """A sign-up that passed validation; what the provider told is JSON."""

    uid: str
    email: str
    display_name: str | None
    email_verified: bool
    github: GitHub | None
    provider_data: str


@dataclass(frozen=True)
class SignedUp:
    """The account, and whether there was one."""

    uid: str
    exists: bool
    needs_github_linking: bool


async def sign_up(session: AccountSession, request: SignUp, client: Client) -> SignedUp:
    """Do what a sign-up asks for."""
    if request.github is None:
        return await _by_address(session, request, client)
    if request.github.link_to is None:
        return await _enter(session, request.github.provider_uid)
    return await _link(session, request, client, request.github)


async def _link(
    session: AccountSession, request: SignUp, client: Client, github: GitHub
) -> SignedUp:
    uid = github.link_to or request.uid
    linked = SignedUp(uid, exists=True, needs_github_linking=False)
    if await session.user_by_uid(uid) is None:
        raise NothingToLinkToError
    if await session.provider(uid, GITHUB) is not None:
        return linked
    if await session.provider_by_uid(GITHUB, github.provider_uid) is not None:
        raise GitHubOfAnotherError
    is_first = not await session.providers_of(uid)
    provider = NewProvider(uid, GITHUB, github.provider_uid, request.provider_data, is_first)
    if not await session.add_provider(provider, client):
        # Taken since it was looked for; by whom doesn't matter to who comes second.
        raise GitHubOfAnotherError
    await session.record_event(AuditEvent(uid, GITHUB, "link_provider", "success"), client)
    return linked


async def _enter(session: AccountSession, provider_uid: str) -> SignedUp:
    """Let a linked GitHub account in; new accounts aren't made from GitHub."""
    provider = await session.provider_by_uid(GITHUB, provider_uid)
    if provider is None:
        raise UnknownGitHubError
    await session.user_by_uid(provider.user_id)
    await session.record_login(provider.user_id)
    return SignedUp(provider.user_id, exists=True, needs_github_linking=False)


async def _by_address(session: AccountSession, request: SignUp, client: Client) -> SignedUp:
    """Sign up with an address: three SELECTs for an account that exists."""
    if await session.user_by_uid(request.uid) is not None:
        needs_github_linking = not await has_github(session, request.uid)
        return SignedUp(request.uid, exists=True, needs_github_linking=needs_github_linking)
    if await session.user_by_email(request.email) is not None:
        raise EmailOfAnotherError
    user = NewUser(
        uid=request.uid,
        email=request.email,
        display_name=request.display_name or email_address.local_part(request.email),
        email_verified=request.email_verified,
    )
    provider = NewProvider(user.uid, EMAIL_PASSWORD, user.uid, request.provider_data, True)
    if not await session.create_user(user, provider, client):
        raise EmailOfAnotherError
    event = AuditEvent(user.uid, EMAIL_PASSWORD, "signup", "success")
    await session.record_event(event, client)
    return SignedUp(user.uid, exists=False, needs_github_linking=True)
