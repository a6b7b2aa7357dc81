"""`X-Request-ID` on every answer: the caller's, if it can be logged safely, else a new one."""

import re
from uuid import uuid4

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

NAME = "X-Request-ID"
_SANE = re.compile(r"[A-Za-z0-9\-_.:]{1,128}")


class RequestIds:
    """Middleware around all routes."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, and name it."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        given = Headers(scope=scope).get(NAME, "")
        request_id = given if _SANE.fullmatch(given) else str(uuid4())

        # For the one answer that is made outside of all middleware: the one to a bug.
        scope.setdefault("state", {})["request_id"] = request_id

        async def send_named(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)[NAME] = request_id
            await send(message)

        await self.app(scope, receive, send_named)
