"""Who may read the monitor: this machine, and who knows the token."""

import hmac
import ipaddress

from unstall.asgi import Scope

REFUSAL_PREFIX = "unstall: "
"""How a 403 of the monitor begins, so that a reader can tell it from the service's own."""

_FORWARDED = frozenset((b"forwarded", b"x-forwarded-for", b"x-real-ip"))
"""Added by proxies; a request with one of them comes from elsewhere, whatever its peer."""


def refusal(scope: Scope, token: str | None) -> str | None:
    """Give the reason not to answer a request, with what to do; `None` if it is answered."""
    headers: list[tuple[bytes, bytes]] = list(scope.get("headers", ()))
    sent = _bearer(headers)
    if token is not None:
        # A proxy that adds no header can't be told from this machine, so a token is asked of all.
        return _token_refusal(sent, token)
    client = scope.get("client")
    if not client:
        return (
            "the monitor can't see who asks: serve on a TCP port (a Unix socket has no peer "
            "address), or configure a token"
        )
    if any(name.lower() in _FORWARDED for name, _ in headers):
        return (
            "the monitor answers no proxy: ask from this machine, or send its token as "
            "`Authorization: Bearer`"
        )
    if not _is_loopback(str(client[0])):
        return (
            "the monitor answers this machine only: ask from loopback, or send its token as "
            "`Authorization: Bearer`"
        )
    return None


def _token_refusal(sent: bytes | None, token: str) -> str | None:
    if sent is None:
        return "send the monitor's token as `Authorization: Bearer`"
    return None if hmac.compare_digest(sent, token.encode()) else "the token is not the monitor's"


def _bearer(headers: list[tuple[bytes, bytes]]) -> bytes | None:
    for name, value in headers:
        if name.lower() == b"authorization":
            return value[7:] if value[:7].lower() == b"bearer " else None
    return None


def _is_loopback(host: str) -> bool:
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False  # a name, as test clients give one, says nothing about where it is
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback
