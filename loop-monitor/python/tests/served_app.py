"""The service of the tests with real servers: blocks on purpose, waits, and streams."""

import asyncio
import time
from collections.abc import AsyncIterator

from fastapi import FastAPI
from starlette.responses import StreamingResponse

from unstall import LoopMonitor

app = FastAPI()
app.add_middleware(LoopMonitor)


@app.get("/blocks/{ms}")
async def blocks(ms: int) -> int:
    time.sleep(ms / 1e3)
    return ms


@app.get("/waits/{ms}")
async def waits(ms: int) -> int:
    await asyncio.sleep(ms / 1e3)
    return ms


@app.get("/pooled/{ms}")
def pooled(ms: int) -> int:
    time.sleep(ms / 1e3)
    return ms


@app.get("/stream/{items}")
async def stream(items: int) -> StreamingResponse:
    async def lines() -> AsyncIterator[str]:
        for item in range(items):
            time.sleep(0.06)
            yield f"{item}\n"
            await asyncio.sleep(0)

    return StreamingResponse(lines())
