"""The body of `POST /signup`, read by hand as in the original: all that is wrong is a 400."""

import json
from typing import Any

from reference_fastapi import email_address
from reference_fastapi.sign_up import GitHub, SignUp
from reference_fastapi.text import has_nul

_UID_CHARACTERS_MAX = 255


class SignUpRefusedError(Exception):
    """What is wrong with it."""


def read_sign_up(body: bytes) -> SignUp:
    """Read it."""
    fields = _object(body)
    uid = _id(fields, "uid")
    if uid is None:
        raise SignUpRefusedError("Missing uid")
    address = _text(fields, "email")
    if address is None:
        raise SignUpRefusedError("Missing email")
    address = email_address.normalised(address)
    if not email_address.is_address(address):
        raise SignUpRefusedError(f"Invalid email address: {address}")
    has_token = _text(fields, "accessToken") is not None
    username = _text(fields, "providerUsername")
    github_uid = _id(fields, "githubFirebaseUid")
    link_to = _id(fields, "linkToUserId")
    data = _provider_data(fields)
    if username is not None:
        data = {**data, "username": username}
    return SignUp(
        uid=uid,
        email=address,
        display_name=_text(fields, "displayName"),
        email_verified=fields.get("emailVerified") is True,
        github=GitHub(github_uid or uid, link_to) if has_token and username else None,
        provider_data=json.dumps(data),
    )


def _object(body: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(body)
    # Nesting too deep is the latter.
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise SignUpRefusedError("The body is not a JSON object")
    if has_nul(fields):
        raise SignUpRefusedError("The body has a text with a NUL")
    return fields


def _text(fields: dict[str, Any], name: str) -> str | None:
    """Give a text that isn't empty; null is as good as none."""
    value = fields.get(name)
    if value is not None and not isinstance(value, str):
        raise SignUpRefusedError(f"{name} is not a text")
    return value or None


def _id(fields: dict[str, Any], name: str) -> str | None:
    value = _text(fields, name)
    if value is not None and (len(value) > _UID_CHARACTERS_MAX or not value.isprintable()):
        raise SignUpRefusedError(
            f"{name} is longer than {_UID_CHARACTERS_MAX} characters or not printable"
        )
    return value


def _provider_data(fields: dict[str, Any]) -> dict[str, Any]:
    """Give an object, or a list's first item if that is one; anything else says nothing."""
    data = fields.get("providerData")
    if isinstance(data, list):
        data = data[0] if data else None
    return data if isinstance(data, dict) else {}
