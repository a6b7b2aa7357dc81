"""`POST /signup`, `POST /sso/login` and `GET /providers/me`: accounts and the ways to sign in."""

import json
from typing import Any

from fastapi import APIRouter, HTTPException, Request, Response, status
from pydantic import BaseModel

from reference_fastapi import email_address, sign_in, sign_up
from reference_fastapi.accounts import Client, Provider, User, text_of, verify
from reference_fastapi.identity import Caller
from reference_fastapi.sign_up_request import SignUpRefusedError, read_sign_up
from reference_fastapi.stores import StoresDependency
from reference_fastapi.text import Object, Text

router = APIRouter(prefix="/api/v1")


class SsoLoginRequest(BaseModel):
    """A sign-in with the token of a sign-in service."""

    email: Text
    sso_provider: Text
    id_token: Text
    provider_data: Object | None = None


class SsoLoginResponse(BaseModel):
    """What came of it."""

    status: str
    user_id: str
    email: str
    display_name: str | None
    access_token: str | None = None
    message: str
    linking_token: str | None = None
    existing_providers: list[str] | None = None
    needs_github_linking: bool = False


class ProviderResponse(BaseModel):
    """A way to sign in."""

    id: str
    user_id: str
    provider_type: str
    provider_uid: str
    provider_data: dict[str, Any] | None
    is_primary: bool
    linked_at: str
    last_used_at: str | None

    @classmethod
    def of(cls, provider: Provider) -> "ProviderResponse":
        """Give what its owner may see, which is all of it."""
        data = json.loads(provider.provider_data) if provider.provider_data else None
        return cls(**{**vars(provider), "provider_data": data})


class ProvidersResponse(BaseModel):
    """All of them."""

    providers: list[ProviderResponse]
    primary_provider: ProviderResponse | None


@router.post("/signup")
@router.post("/signup/")
async def post_sign_up(stores: StoresDependency, request: Request) -> Response:
    """Sign up. The answers come without a Content-Type, as the original's do."""
    try:
        asked = read_sign_up(await request.body())
        async with stores.accounts.session() as session:
            done = await sign_up.sign_up(session, asked, _client(request))
    except SignUpRefusedError as refused:
        return _untyped({"detail": str(refused)}, status.HTTP_400_BAD_REQUEST)
    except tuple(_SIGN_UP_REFUSALS) as refusal:
        code, detail = _SIGN_UP_REFUSALS[type(refusal)]
        return _untyped({"detail": detail}, code)
    code = status.HTTP_200_OK if done.exists else status.HTTP_201_CREATED
    return _untyped(vars(done), code)


_SIGN_UP_REFUSALS: dict[type[Exception], tuple[int, str]] = {
    sign_up.NothingToLinkToError: (
        status.HTTP_404_NOT_FOUND,
        "User not found; sign in again",
    ),
    sign_up.UnknownGitHubError: (
        status.HTTP_403_FORBIDDEN,
        "Signing up with GitHub is not possible; sign up with a work email address",
    ),
    sign_up.GitHubOfAnotherError: (
        status.HTTP_409_CONFLICT,
        "This GitHub account is linked to another account",
    ),
    sign_up.EmailOfAnotherError: (
        status.HTTP_409_CONFLICT,
        "This email address belongs to another account",
    ),
}


@router.post("/sso/login")
@router.post("/sso/login/")
async def sso_login(
    stores: StoresDependency, request: Request, response: Response, body: SsoLoginRequest
) -> SsoLoginResponse:
    """Sign in through a sign-in service."""
    asked = _sign_in(body, _client(request))
    try:
        async with stores.accounts.session() as session:
            done = await sign_in.sign_in(session, asked)
    except sign_in.PersonalAddressError:
        raise HTTPException(
            status.HTTP_403_FORBIDDEN,
            "Personal email addresses are not allowed; use a work email address",
        ) from None
    except sign_in.BelongsToAnotherError:
        raise HTTPException(
            status.HTTP_400_BAD_REQUEST,
            "Invalid request: this sign-in belongs to another account",
        ) from None
    if not isinstance(done, sign_in.SignedIn):
        response.status_code = status.HTTP_202_ACCEPTED
    return _sso_response(done)


def _sso_response(done: sign_in.Outcome) -> SsoLoginResponse:
    match done:
        case sign_in.SignedIn(user, needs_github_linking=False):
            return _answer("success", user, "Signed in")
        case sign_in.SignedIn(user):
            answer = _answer("success", user, "Signed in; a GitHub account must be linked next")
            answer.needs_github_linking = True
            return answer
        case sign_in.NeedsLinking(user, linking_token, existing_providers):
            ways = ", ".join(existing_providers)
            message = f"The account is signed in to with {ways}; link this provider?"
            answer = _answer("needs_linking", user, message)
            answer.linking_token = linking_token
            answer.existing_providers = existing_providers
            return answer
        case sign_in.SignedUp(user):
            answer = _answer("new_user", user, "Account created")
            answer.needs_github_linking = True
            return answer


def _answer(status_word: str, user: User, message: str) -> SsoLoginResponse:
    return SsoLoginResponse(
        status=status_word,
        user_id=user.uid,
        email=user.email,
        display_name=user.display_name,
        message=message,
    )


def _sign_in(body: SsoLoginRequest, client: Client) -> sign_in.SignIn:
    if not email_address.is_address(body.email.strip()):
        raise HTTPException(
            status.HTTP_400_BAD_REQUEST, "Invalid request: email is not an email address"
        )
    # From here on the token's address counts, whatever the body's.
    identity = verify(body.sso_provider, body.id_token)
    if identity is None:
        raise HTTPException(
            status.HTTP_401_UNAUTHORIZED,
            "Invalid or expired SSO token",
            {"WWW-Authenticate": "Bearer"},
        )
    data = body.provider_data
    name = text_of(data or {}, "name")
    if data is None:
        data = {"sub": identity.provider_uid, "email": identity.email}
    return sign_in.SignIn(
        identity=identity,
        provider_data=json.dumps(data),
        display_name=email_address.local_part(identity.email) if name is None else name,
        client=client,
    )


@router.get("/providers/me")
@router.get("/providers/me/")
async def my_providers(caller: Caller, stores: StoresDependency) -> ProvidersResponse:
    """List the ways to sign in to the caller's account."""
    async with stores.accounts.session() as session:
        providers = await session.providers_of(caller)
    responses = [ProviderResponse.of(provider) for provider in providers]
    primary = next((provider for provider in responses if provider.is_primary), None)
    return ProvidersResponse(providers=responses, primary_provider=primary)


def _client(request: Request) -> Client:
    ip = request.client.host if request.client else ""
    return Client(ip, request.headers.get("user-agent"))


def _untyped(answer: dict[str, Any], code: int) -> Response:
    return Response(json.dumps(answer, separators=(",", ":")), code)
