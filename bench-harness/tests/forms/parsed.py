"""A Starlette service that tells what its framework has parsed of each form.

Its port is its first line on stdout; what it has parsed follows, a line of JSON for each form.
"""

import json
import socket

import uvicorn
from starlette.applications import Starlette
from starlette.datastructures import UploadFile
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route


async def parse(request: Request) -> Response:
    parsed = []
    async with request.form() as form:
        for name, value in form.multi_items():
            if isinstance(value, UploadFile):
                content = await value.read()
                told = {"file": value.filename, "type": value.content_type, "hex": content.hex()}
            else:
                told = {"text": value}
            parsed.append({"name": name} | told)
    print(json.dumps(parsed), flush=True)
    return JSONResponse({"parts": len(parsed)})


listener = socket.create_server(("127.0.0.1", 0))
print(listener.getsockname()[1], flush=True)
app = Starlette(routes=[Route("/form", parse, methods=["POST"])])
uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="off")).run(sockets=[listener])
