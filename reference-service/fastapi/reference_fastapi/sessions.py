"""What requests do with runs in Redis: claim an id, hand over, look up, stop.

Each function is a list of commands on a `StreamConnection`; the versions differ in how a command
is sent, never in what is sent.
"""

import json
import time
from dataclasses import dataclass
from itertools import count
from uuid import uuid4

from reference_fastapi import stream_events
from reference_fastapi.runs import (
    CANCEL_TTL_S,
    RESERVATION_TTL_S,
    TASK_TTL_S,
    Run,
    StreamConnection,
    Streams,
    run_of_stream,
    streams_pattern,
)
from reference_fastapi.stores import Stores
from reference_fastapi.stream_events import Answer, End, RunStatus

_REVOKE_PAUSE_S = 0.5
"""How long the original waits for its worker to let go of a task."""
_GOODBYE_PAUSE_S = 0.2
"""How long it leaves readers to see the end before the stream is deleted."""
_ESTIMATE_ACTIVE_MS = 60_000
"""What an active task is said to need from now on: the original has no better estimate."""
_ESTIMATE_DONE_MS = -5_000


async def reserve(streams: Streams, conversation_id: str, base: str) -> Run:
    """Claim the first free id of `base`, `base-1`, …: EXISTS per id, then SET NX."""
    async with streams.connect() as redis:
        for n in count():
            run = Run(conversation_id, f"{base}-{n}" if n else base)
            if not await redis.exists(run.stream_key) and await redis.claim(
                run.reservation_key, RESERVATION_TTL_S
            ):
                break
    return run


async def hand_over(streams: Streams, run: Run, uid: str, content: str | None) -> None:
    """Hand a run to the workers: status, `queued` entry, task, the task's id.

    Without content it is the conversation's last question that is asked again. The entry comes
    before the task, so that a worker finds the stream; and a reader that comes later begins at the
    stream's start, so nothing is lost to it.
    """
    task_id = str(uuid4())
    task = {
        "task_id": task_id,
        "conversation_id": run.conversation_id,
        "run_id": run.run_id,
        "user_id": uid,
        "content": content or "",
        "agent_id": None,
        "regenerate": content is None,
    }
    async with streams.connect() as redis:
        await redis.put(run.status_key, RunStatus.QUEUED.value, TASK_TTL_S)
        await redis.append(run.stream_key, stream_events.queued(run))
        await redis.enqueue(json.dumps(task))
        await redis.put(run.task_id_key, task_id, TASK_TTL_S)


async def is_there(streams: Streams, run: Run) -> bool:
    """Tell whether a run can be resumed: its stream is still there."""
    async with streams.connect() as redis:
        return await redis.exists(run.stream_key)


@dataclass(frozen=True)
class Session:
    """The session that a client would go on watching; its status may have expired."""

    run: Run
    status: RunStatus | None
    cursor: str
    started_ms: int
    active_ms: int


async def latest_session(streams: Streams, conversation_id: str) -> Session | None:
    """Find the conversation's latest session, by the order of ids as in the original.

    Runs of one base are numbered; those of several bases it doesn't tell apart either.
    """
    async with streams.connect() as redis:
        runs = await _runs(redis, conversation_id)
        if not runs or not await redis.exists(runs[-1].stream_key):
            return None
        run = runs[-1]
        first = await redis.first_id(run.stream_key)
        # Gone between two commands.
        if first is None:
            return None
        last = await redis.last_id(run.stream_key)
        status = await redis.get(run.status_key)
    if last is None:
        return None
    return Session(run, RunStatus.parse(status), last, _written_ms(first), _written_ms(last))


async def _runs(redis: StreamConnection, conversation_id: str) -> list[Run]:
    """Give the runs with a stream, in the order of their ids."""
    keys = await redis.matching(streams_pattern(conversation_id))
    # A scan may give a key twice.
    runs = {run_of_stream(conversation_id, key) for key in keys}
    return sorted(runs, key=lambda run: run.order)


def _written_ms(entry_id: str) -> int:
    """Say when an entry was written: its id is `<ms since 1970>-<sequence>`."""
    return int(entry_id.partition("-")[0])


@dataclass(frozen=True)
class TaskStatus:
    """A conversation's task, and when it will be, or was, done."""

    run: Run
    is_active: bool
    completion_ms: int


async def task_status(streams: Streams, conversation_id: str) -> TaskStatus | None:
    """Find the latest task whose status is known: GET per run, from the latest on."""
    async with streams.connect() as redis:
        latest = await _latest_task(redis, conversation_id)
    if latest is None:
        return None
    run, status = latest
    estimate_ms = _ESTIMATE_ACTIVE_MS if status.is_active else _ESTIMATE_DONE_MS
    return TaskStatus(run, status.is_active, _now_ms() + estimate_ms)


async def _latest_task(
    redis: StreamConnection, conversation_id: str
) -> tuple[Run, RunStatus] | None:
    """Find the run that `task_status` tells of."""
    for run in reversed(await _runs(redis, conversation_id)):
        status = RunStatus.parse(await redis.get(run.status_key))
        if status is not None:
            return run, status
    return None


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


@dataclass(frozen=True)
class Stopped:
    """The run is stopped and its keys are gone; what it had said is this message, if anything."""

    message_id: str | None


async def stop(
    stores: Stores, uid: str, conversation_id: str, session_id: str | None
) -> Stopped | None:
    """Stop a run, the latest if none is named: `None` if that isn't active.

    It tells the worker, saves what it has said, tells the readers, and deletes the run's keys. The
    original broadcasts a revocation to its workers before the first pause; ours look for the
    cancel key, so this is one command less.
    """
    async with stores.streams.connect() as redis:
        if session_id:
            run = Run(conversation_id, session_id)
        else:
            latest = await _latest_task(redis, conversation_id)
            if latest is None or not latest[1].is_active:
                return None
            run, _ = latest
        await redis.put(run.cancel_key, "true", CANCEL_TTL_S)
        if await redis.get(run.task_id_key) is not None:
            await redis.pause(_REVOKE_PAUSE_S)
        message_id = None
        said = await _said_so_far(redis, run)
        if said:
            message_id = await stores.history.save_partial(uid, conversation_id, said)
        await redis.append(run.stream_key, stream_events.cancelled(run))
        await redis.put(run.status_key, RunStatus.CANCELLED.value, TASK_TTL_S)
        await redis.pause(_GOODBYE_PAUSE_S)
        await redis.delete(run.stream_key, run.cancel_key, run.task_id_key, run.status_key)
    return Stopped(message_id)


async def _said_so_far(redis: StreamConnection, run: Run) -> str:
    """Give what a run has said that nobody has stored.

    That is nothing if it ended by itself, since then its worker has stored it.
    """
    if not await redis.exists(run.stream_key):
        return ""
    said = Answer()
    for entry in await redis.entries(run.stream_key):
        match stream_events.read(entry):
            case Answer() as piece:
                said.add(piece)
            case End(RunStatus.CANCELLED):
                break
            case End():
                return ""
    return said.message
