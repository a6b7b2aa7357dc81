"""One service four times: the same routes in every framework, each monitored.

A route blocks in its handler, in a task that it starts, after its response, in a WebSocket; another
one only waits.
"""

import asyncio
import time
from typing import Any

from fastapi import FastAPI
from litestar import Litestar, get
from litestar import WebSocket as LitestarWebSocket
from litestar.background_tasks import BackgroundTask as LitestarBackground
from litestar.handlers import websocket as litestar_websocket
from litestar.response import Response as LitestarResponse
from quart import Quart
from quart import websocket as quart_websocket
from starlette.applications import Starlette
from starlette.background import BackgroundTask, BackgroundTasks
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from unstall import LoopMonitor


def block(ms: int) -> None:
    time.sleep(ms / 1e3)


async def block_in_tasks(ms: int) -> None:
    async def one() -> None:
        await asyncio.sleep(0)
        block(ms)

    await asyncio.gather(asyncio.create_task(one()), one())


async def block_later(ms: int) -> None:
    block(ms)


def fastapi_app() -> FastAPI:
    app = FastAPI()

    @app.get("/blocks/{ms}")
    async def blocks(ms: int) -> str:
        block(ms)
        return "ok"

    @app.get("/waits/{ms}")
    async def waits(ms: int) -> str:
        await asyncio.sleep(ms / 1e3)
        return "ok"

    @app.get("/tasks/{ms}")
    async def tasks(ms: int) -> str:
        await block_in_tasks(ms)
        return "ok"

    @app.get("/background/{ms}")
    async def background(ms: int) -> Response:
        return PlainTextResponse("ok", background=BackgroundTask(block_later, ms))

    @app.websocket("/socket/{name}")
    async def socket(websocket: WebSocket, name: str) -> None:
        await websocket.accept()
        block(int(await websocket.receive_text()))
        await websocket.send_text(name)
        await websocket.close()

    app.add_middleware(LoopMonitor)
    return app


def starlette_app() -> Starlette:
    async def blocks(request: Request) -> Response:
        block(request.path_params["ms"])
        return PlainTextResponse("ok")

    async def waits(request: Request) -> Response:
        await asyncio.sleep(request.path_params["ms"] / 1e3)
        return PlainTextResponse("ok")

    async def tasks(request: Request) -> Response:
        await block_in_tasks(request.path_params["ms"])
        return PlainTextResponse("ok")

    async def background(request: Request) -> Response:
        after = BackgroundTasks()
        after.add_task(block_later, request.path_params["ms"])
        return PlainTextResponse("ok", background=after)

    async def socket(websocket: WebSocket) -> None:
        await websocket.accept()
        block(int(await websocket.receive_text()))
        await websocket.send_text(websocket.path_params["name"])
        await websocket.close()

    app = Starlette(
        routes=[
            Route("/blocks/{ms:int}", blocks),
            Route("/waits/{ms:int}", waits),
            Route("/tasks/{ms:int}", tasks),
            Route("/background/{ms:int}", background),
            WebSocketRoute("/socket/{name}", socket),
        ]
    )
    app.add_middleware(LoopMonitor)
    return app


def litestar_app() -> LoopMonitor:
    @get("/blocks/{ms:int}")
    async def blocks(ms: int) -> str:
        block(ms)
        return "ok"

    @get("/waits/{ms:int}")
    async def waits(ms: int) -> str:
        await asyncio.sleep(ms / 1e3)
        return "ok"

    @get("/tasks/{ms:int}")
    async def tasks(ms: int) -> str:
        await block_in_tasks(ms)
        return "ok"

    @get("/background/{ms:int}")
    async def background(ms: int) -> LitestarResponse[str]:
        return LitestarResponse("ok", background=LitestarBackground(block_later, ms))

    @litestar_websocket("/socket/{name:str}")
    async def socket(socket: LitestarWebSocket[Any, Any, Any], name: str) -> None:
        await socket.accept()
        block(int(await socket.receive_text()))
        await socket.send_text(name)
        await socket.close()

    return LoopMonitor(Litestar([blocks, waits, tasks, background, socket]))  # type: ignore[arg-type]


def quart_app() -> Quart:
    app = Quart("frameworks")

    @app.get("/blocks/<int:ms>")
    async def blocks(ms: int) -> str:
        block(ms)
        return "ok"

    @app.get("/waits/<int:ms>")
    async def waits(ms: int) -> str:
        await asyncio.sleep(ms / 1e3)
        return "ok"

    @app.get("/tasks/<int:ms>")
    async def tasks(ms: int) -> str:
        await block_in_tasks(ms)
        return "ok"

    @app.get("/background/<int:ms>")
    async def background(ms: int) -> str:
        async def later() -> None:
            await asyncio.sleep(0.02)
            block(ms)

        app.add_background_task(later)
        return "ok"

    @app.websocket("/socket/<name>")
    async def socket(name: str) -> None:
        await quart_websocket.accept()
        block(int(await quart_websocket.receive()))
        await quart_websocket.send(name)

    app.asgi_app = LoopMonitor(app.asgi_app)  # type: ignore[method-assign,assignment,arg-type]
    return app


fastapi, starlette, litestar, quart = fastapi_app(), starlette_app(), litestar_app(), quart_app()
