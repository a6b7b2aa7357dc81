"""The service of the wheel's tests: one route that holds the loop, and the same without."""

import asyncio
import os
import time

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from unstall import LoopMonitor
from unstall.asgi import ASGIApp, Receive, Scope, Send


async def blocking_item(request: Request) -> JSONResponse:
    time.sleep(0.004)
    return JSONResponse({"id": int(request.path_params["item_id"])})


async def waiting_item(request: Request) -> JSONResponse:
    await asyncio.sleep(0.004)
    return JSONResponse({"id": int(request.path_params["item_id"])})


async def health(_: Request) -> JSONResponse:
    return JSONResponse({})


def service(item: object) -> ASGIApp:
    return Starlette(
        routes=[Route("/items/{item_id}", item), Route("/health", health)],  # type: ignore[arg-type]
        middleware=[Middleware(LoopMonitor, token=os.environ.get("UNSTALL_MONITOR_TOKEN"))],
    )


async def from_elsewhere(scope: Scope, receive: Receive, send: Send) -> None:
    """Serve `blocking` as if every client were on another machine."""
    await blocking({**scope, "client": ("192.0.2.1", 9)}, receive, send)


blocking = service(blocking_item)
waiting = service(waiting_item)
