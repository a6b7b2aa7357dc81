"""Sends one of the commands that must not be sent twice, once Redis has been stopped.

one_command.py {blocking|asynchronous} {claim|append|enqueue} KEY

It says `ready` when it is connected, waits for a line, sends, and says what came of it. Who stops
Redis and counts what was done is reference-service/tests.
"""

import asyncio
import sys
from pathlib import Path

from redis import RedisError

# The example is run from its folder.
sys.path.insert(0, str(Path(__file__).parents[1]))

from reference_fastapi import asynchronous, blocking
from reference_fastapi.runs import StreamConnection
from reference_fastapi.settings import Settings

_VERSIONS = {"blocking": blocking, "asynchronous": asynchronous}


async def main(version: str, command: str, key: str) -> None:
    """Send the command."""
    settings = Settings.from_environment()
    async with (
        _VERSIONS[version].open_stores(settings) as stores,
        stores.streams.connect() as redis,
    ):
        # Connected from here on, as a request is that has looked for its run.
        await redis.exists(key)
        print("ready", flush=True)
        sys.stdin.readline()
        try:
            await _send(redis, command, key)
            print("answered", flush=True)
        except RedisError as error:
            print(type(error).__name__, flush=True)


async def _send(redis: StreamConnection, command: str, key: str) -> None:
    match command:
        case "claim":
            await redis.claim(key, 60)
        case "append":
            await redis.append(key, {"type": "queued"})
        case "enqueue":
            await redis.enqueue(key)
        case _:
            raise SystemExit(f"{command} is none of claim, append and enqueue")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
