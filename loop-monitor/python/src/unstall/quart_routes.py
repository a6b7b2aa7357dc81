"""The route template of a request to Quart, which leaves nothing in the scope.

Quart tells who asks when a request has found its route: its signals are made for that. They are
connected once, and only if the process has imported Quart; nothing of it is imported here.
"""

import contextlib
import re
import sys
from typing import Any

from unstall.child_tasks import current_account

_OPEN_SEGMENT = re.compile(r"<(?:[^<>:]*:)?([^<>:]+)>")
"""`<name>` and `<converter(arguments):name>` of a rule."""

_connected: set[str] = set()


def watch_quart() -> None:
    """Connect to Quart's signals, if Quart is here and they aren't connected yet."""
    quart = sys.modules.get("quart")
    for name, receive in (
        ("request_started", _http_route_found),
        ("websocket_started", _websocket_route_found),
    ):
        signal = getattr(quart, name, None)
        if signal is not None and name not in _connected:
            _connected.add(name)
            signal.connect(receive)


# Coroutines: Quart would run a plain function in a thread.
async def _http_route_found(_app: Any, **_more: Any) -> None:
    _name_route("request")


async def _websocket_route_found(_app: Any, **_more: Any) -> None:
    _name_route("websocket")


def _name_route(current: str) -> None:
    account = current_account.get()
    if account is None:
        return
    # Whatever a later Quart calls it, the request must not fail of it.
    with contextlib.suppress(AttributeError, RuntimeError):
        rule = getattr(sys.modules["quart"], current).url_rule
        account.name_route(None if rule is None else template_of(str(rule.rule)))


def template_of(rule: str) -> str:
    """Write a rule as other frameworks write theirs: `/users/<int:id>` is `/users/{id}`."""
    return _OPEN_SEGMENT.sub(r"{\1}", rule)
