"""What a conversation's agent is doing, and making it stop."""

from fastapi import APIRouter, HTTPException, status
from pydantic import BaseModel

from reference_fastapi import sessions
from reference_fastapi.identity import Caller
from reference_fastapi.stores import Stores, StoresDependency
from reference_fastapi.stream_events import RunStatus
from reference_fastapi.text import Text

router = APIRouter(prefix="/api/v1/conversations/{conversation_id}")

_WORDS = {
    RunStatus.QUEUED: "active",
    RunStatus.RUNNING: "active",
    RunStatus.COMPLETED: "completed",
}


class ActiveSessionResponse(BaseModel):
    """The session that a client would go on watching; times in ms since 1970."""

    sessionId: str
    status: str
    cursor: str
    conversationId: str
    startedAt: int
    lastActivity: int


class TaskStatusResponse(BaseModel):
    """Whether the conversation's agent is at work."""

    isActive: bool
    sessionId: str
    estimatedCompletion: int
    conversationId: str


class StopResponse(BaseModel):
    """What a request to stop came to, if there was nothing to stop."""

    status: str
    message: str


class StoppedResponse(StopResponse):
    """The same, if there was."""

    saved_partial: bool
    message_id: str | None


@router.get("/active-session")
async def active_session(
    caller: Caller, stores: StoresDependency, conversation_id: Text
) -> ActiveSessionResponse:
    """Find the latest session."""
    none = "No active session found"
    await refuse_without_access(stores, caller, conversation_id, none)
    session = await sessions.latest_session(stores.streams, conversation_id)
    if session is None:
        raise no_run(none, conversation_id)
    return ActiveSessionResponse(
        sessionId=session.run.run_id,
        status=_WORDS.get(session.status, "idle") if session.status else "idle",
        cursor=session.cursor,
        conversationId=conversation_id,
        startedAt=session.started_ms,
        lastActivity=session.active_ms,
    )


@router.get("/task-status")
async def task_status(
    caller: Caller, stores: StoresDependency, conversation_id: Text
) -> TaskStatusResponse:
    """Find the latest task."""
    none = "No background task found"
    await refuse_without_access(stores, caller, conversation_id, none)
    task = await sessions.task_status(stores.streams, conversation_id)
    if task is None:
        raise no_run(none, conversation_id)
    return TaskStatusResponse(
        isActive=task.is_active,
        sessionId=task.run.run_id,
        estimatedCompletion=task.completion_ms,
        conversationId=conversation_id,
    )


@router.post("/stop")
async def stop(
    caller: Caller,
    stores: StoresDependency,
    conversation_id: Text,
    session_id: Text | None = None,
) -> StoppedResponse | StopResponse:
    """Stop a run, and save what it has said.

    The original asks nobody whether the caller may; a partial answer is saved in the caller's own
    conversations only.
    """
    stopped = await sessions.stop(stores, caller, conversation_id, session_id)
    if stopped is None:
        return StopResponse(status="success", message="No active session to stop")
    return StoppedResponse(
        status="success",
        message="Generation stopped",
        saved_partial=stopped.message_id is not None,
        message_id=stopped.message_id,
    )


async def refuse_without_access(
    stores: Stores, caller: str, conversation_id: str, none: str
) -> None:
    """Check the access, as every route does that shows a run.

    `none` is what a conversation that isn't there is said to have none of.
    """
    may_read = await stores.access.may_read(caller, conversation_id)
    if may_read is None:
        raise no_run(none, conversation_id)
    if not may_read:
        raise HTTPException(status.HTTP_403_FORBIDDEN, "Access denied to conversation")


def no_run(none: str, conversation_id: str) -> HTTPException:
    """Say that there is no session, or no task, in that conversation."""
    detail = {"error": none, "conversationId": conversation_id}
    return HTTPException(status.HTTP_404_NOT_FOUND, detail)
