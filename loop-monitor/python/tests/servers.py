"""Real servers for the tests, and clients for them."""

import base64
import http.client
import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

UVICORN = ("uvicorn", "--log-level", "warning", "--timeout-graceful-shutdown", "1")
HYPERCORN = ("hypercorn", "--log-level", "warning", "--graceful-timeout", "1")


class Served:
    """A running server."""

    def __init__(self, port: int) -> None:
        self.port = port

    def get(self, path: str) -> str:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=20)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            assert answer.status == 200, path
            return answer.read().decode()
        finally:
            connection.close()

    def snapshot(self) -> dict[str, Any]:
        snapshot: dict[str, Any] = json.loads(self.get("/__unstall/snapshot"))
        return snapshot

    def talk(self, path: str, text: str) -> str:
        """Open a WebSocket, send one text and give the one that comes back (RFC 6455)."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=20) as client:
            key = base64.b64encode(os.urandom(16)).decode()
            client.sendall(
                f"GET {path} HTTP/1.1\r\nHost: test\r\nUpgrade: websocket\r\n"
                f"Connection: Upgrade\r\nSec-WebSocket-Key: {key}\r\n"
                "Sec-WebSocket-Version: 13\r\n\r\n".encode()
            )
            stream = client.makefile("rb")
            assert b" 101 " in stream.readline()
            while stream.readline() not in (b"\r\n", b""):
                pass
            mask = os.urandom(4)
            masked = bytes(byte ^ mask[at % 4] for at, byte in enumerate(text.encode()))
            client.sendall(bytes([0x81, 0x80 | len(masked)]) + mask + masked)
            kind, length = stream.read(2)
            assert kind == 0x81
            return stream.read(length).decode()


@contextmanager
def served(app: str, *command: str) -> Iterator[Served]:
    """Run one on a socket that listens already, so that no port is guessed and none is awaited."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        listener.set_inheritable(True)
        program, *options = command
        number = listener.fileno()
        where = ["--bind", f"fd://{number}"] if program == "hypercorn" else ["--fd", str(number)]
        process = subprocess.Popen(
            [sys.executable, "-B", "-m", program, app, *where, *options],
            cwd=Path(__file__).parent,
            pass_fds=[number],
        )
        try:
            yield Served(listener.getsockname()[1])
        finally:
            process.terminate()
            try:
                process.wait(20)
            finally:
                process.kill()
