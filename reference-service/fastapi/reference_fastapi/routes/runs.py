"""Runs that answer a request: started by a message or a regeneration, or resumed."""

from typing import Annotated

from fastapi import APIRouter, Depends, Form, HTTPException, Query, Response, UploadFile, status
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import StreamingResponse
from pydantic import BaseModel, TypeAdapter, ValidationError

from reference_fastapi import sessions
from reference_fastapi.identity import Caller
from reference_fastapi.routes.conversations import refuse_over_limit, take_slot
from reference_fastapi.routes.sessions import no_run, refuse_without_access
from reference_fastapi.run_streams import RunFailedError
from reference_fastapi.runs import Run, base_id
from reference_fastapi.stores import Stores, StoresDependency
from reference_fastapi.text import Text

router = APIRouter(prefix="/api/v1/conversations/{conversation_id}")

Cursor = Annotated[str | None, Query(pattern="^[0-9]{1,19}(-[0-9]{1,19})?$")]
"""The id of a stream's entry."""


class RunQuery(BaseModel):
    """The query of every route that starts a run."""

    stream: bool = True
    # Whatever it says, the worker answers: there is no agent in this process that could.
    background: bool = True
    session_id: Text | None = None
    prev_human_message_id: Text | None = None
    cursor: Cursor = None


class Node(BaseModel):
    """A node that a message is about."""

    node_id: str


_NODES = TypeAdapter(list[Node] | None)


class RegenerateRequest(BaseModel):
    """What a regeneration is about."""

    node_ids: list[Node] | None = None


@router.post("/message", dependencies=[Depends(take_slot)])
async def message(
    caller: Caller,
    stores: StoresDependency,
    conversation_id: Text,
    query: Annotated[RunQuery, Query()],
    content: Annotated[Text, Form()],
    node_ids: Annotated[str | None, Form()] = None,
    images: Annotated[list[UploadFile] | None, Form()] = None,
) -> Response:
    """Hand the message to the agent and answer with its stream, or with its whole answer."""
    if not content.strip():
        raise HTTPException(status.HTTP_400_BAD_REQUEST, "Message content cannot be empty")
    _check_node_ids(node_ids)
    return await _start(stores, caller, conversation_id, query, content)


def _check_node_ids(node_ids: str | None) -> None:
    if node_ids is None or not node_ids.strip():
        return
    try:
        _NODES.validate_json(node_ids)
    except ValidationError:
        raise HTTPException(status.HTTP_400_BAD_REQUEST, "Invalid node_ids format") from None


@router.post("/regenerate", dependencies=[Depends(take_slot)])
async def regenerate(
    caller: Caller,
    stores: StoresDependency,
    conversation_id: Text,
    query: Annotated[RunQuery, Query()],
    body: RegenerateRequest,
) -> Response:
    """Answer the conversation's last question anew."""
    return await _start(stores, caller, conversation_id, query, None)


async def _start(
    stores: Stores, caller: str, conversation_id: str, query: RunQuery, content: str | None
) -> Response:
    """Check the usage, claim a run id, hand the run to the workers, answer.

    Whose conversation it is the worker finds out, as it stores the question: a run in somebody
    else's just fails.
    """
    await refuse_over_limit(stores, caller)
    base = base_id(caller, query.session_id, query.prev_human_message_id)
    run = await sessions.reserve(stores.streams, conversation_id, base)
    await sessions.hand_over(stores.streams, run, caller, content)
    if query.stream:
        return _stream(stores, run, query.cursor)
    try:
        answer = await run_in_threadpool(stores.run_streams.whole, run)
    except RunFailedError:
        raise HTTPException(
            status.HTTP_500_INTERNAL_SERVER_ERROR, "The agent failed to answer"
        ) from None
    return Response(answer.to_json(), media_type="application/json")


@router.post("/resume/{session_id}", dependencies=[Depends(take_slot)])
async def resume(
    caller: Caller,
    stores: StoresDependency,
    conversation_id: Text,
    session_id: Text,
    cursor: Cursor = None,
) -> Response:
    """Go on with a run's stream, from an entry on."""
    none = "No active session found"
    await refuse_without_access(stores, caller, conversation_id, none)
    run = Run(conversation_id, session_id)
    if not await sessions.is_there(stores.streams, run):
        raise no_run(none, conversation_id)
    return _stream(stores, run, cursor)


def _stream(stores: Stores, run: Run, cursor: str | None) -> StreamingResponse:
    return StreamingResponse(stores.run_streams.body(run, cursor), media_type="text/event-stream")
