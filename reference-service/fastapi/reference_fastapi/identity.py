"""Who calls. Tokens are checked without any I/O, as a signed token would be."""

import re
from typing import Annotated

from fastapi import Depends, Header, HTTPException, status

_DEFAULT_USER = "u-0"
_HEADER = re.compile(r"bearer +token-(u-(?:free|pro|1?\d?\d)) *", re.IGNORECASE | re.ASCII)
_KNOWN = re.compile(r"u-(?:free|pro|0|1\d\d|[1-9]\d?)", re.ASCII)


async def _caller(authorization: Annotated[str | None, Header()] = None) -> str:
    """Give the user of `Authorization: Bearer token-<uid>`, or without that header the default one.

    It is a coroutine, so that it takes no worker thread.
    """
    if authorization is None:
        return _DEFAULT_USER
    found = _HEADER.fullmatch(authorization)
    if found is None or not _KNOWN.fullmatch(found[1]):
        raise HTTPException(
            status.HTTP_401_UNAUTHORIZED,
            "Invalid token; send `Authorization: Bearer <token>`",
            {"WWW-Authenticate": "Bearer"},
        )
    return found[1]


Caller = Annotated[str, Depends(_caller)]
"""The caller's id."""
