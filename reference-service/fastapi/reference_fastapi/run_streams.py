"""A run's answer on its way to a client: a synchronous generator, in both versions.

The server drives it on one of its 40 worker threads, which it holds while it waits inside XREAD;
the migration left it there. A client that goes away stops the generator at its next entry.
"""

import logging
import time
from collections.abc import Iterator
from typing import Any

from redis import Redis, RedisError

from reference_fastapi import stream_events
from reference_fastapi.runs import Run
from reference_fastapi.settings import WAIT_S, Settings
from reference_fastapi.stream_events import Answer, End, Event, RunStatus

_LOG = logging.getLogger(__name__)
_BLOCK_S = 5.0
"""How long one XREAD waits for an entry."""
_FROM_THE_START = "0-0"


class RunFailedError(Exception):
    """The agent didn't answer to its end."""


class RunStreams:
    """Follows runs."""

    def __init__(self, settings: Settings) -> None:
        self._redis_url = settings.redis_url
        self._idle_max_s = settings.stream_idle_max_s

    def body(self, run: Run, cursor: str | None) -> Iterator[str]:
        """Give JSON objects: an empty one when the run is queued, then the answer's pieces.

        Whatever happens, it just ends: the API has no errors inside a stream.
        """
        for event in self._follow(run, cursor):
            if isinstance(event, Answer):
                yield event.to_json()

    def whole(self, run: Run) -> Answer:
        """Give the whole answer, once the run has ended: also what was said until it was stopped.

        It takes as long as the run does: call it on a thread.
        """
        whole = Answer()
        for event in self._follow(run, None):
            match event:
                case Answer() as piece:
                    whole.add(piece)
                case End(RunStatus.COMPLETED | RunStatus.CANCELLED):
                    return whole
        raise RunFailedError

    def _follow(self, run: Run, cursor: str | None) -> Iterator[Event]:
        """Give each event (from the cursor's entry on, if one is given) up to the run's end."""
        try:
            with Redis.from_url(
                self._redis_url,
                decode_responses=True,
                protocol=2,
                socket_connect_timeout=WAIT_S,
                # An answer may come as late as XREAD waits, and then be slow.
                socket_timeout=_BLOCK_S + WAIT_S,
            ) as redis:
                for _, entry in self._entries(redis, run.stream_key, cursor):
                    event = stream_events.read(entry)
                    if event is not None:
                        yield event
                    if isinstance(event, End):
                        return
        except RedisError as error:
            _LOG.warning("the stream %s can't be read: %s", run.stream_key, error)

    def _entries(
        self,
        redis: Any,  # noqa: ANN401 - its types don't know that it decodes
        stream: str,
        cursor: str | None,
    ) -> Iterator[tuple[str, dict[str, str]]]:
        """Replay the entries from the cursor on, then wait for more: EXISTS, then XREAD of one."""
        last_id = cursor or _FROM_THE_START
        if cursor is not None:
            for last_id, entry in redis.xrange(stream, min=cursor):
                yield last_id, entry
        heard_s = time.monotonic()
        while redis.exists(stream):
            left_s = heard_s + self._idle_max_s - time.monotonic()
            if left_s <= 0:
                _LOG.warning("the stream %s is idle: is a worker running?", stream)
                return
            # Zero would wait for ever.
            block_ms = max(1, round(min(left_s, _BLOCK_S) * 1000))
            for _, entries in redis.xread({stream: last_id}, count=1, block=block_ms) or []:
                for last_id, entry in entries:
                    heard_s = time.monotonic()
                    yield last_id, entry
