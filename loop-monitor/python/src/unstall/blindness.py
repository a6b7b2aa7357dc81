"""What the monitor can't see, in plain words: a reader must know what a zero doesn't say."""

from collections.abc import Iterator
from typing import Any

_ALWAYS = (
    "Why a step was long isn't told: a hold is wall time, in which the code may have blocked, "
    "computed, waited for a core or waited for the interpreter lock. Blocked time, CPU and "
    "run-queue time are not measured.",
    "Only the steps of a request's own coroutine are timed, with what the server does in its "
    "send: tasks that the request starts (asyncio.create_task, gather, task groups), callbacks of "
    "the loop and threads have no endpoint. Where they stall the loop, the lag shows it.",
    "Under servers below ASGI 2.4, as uvicorn is, Starlette and FastAPI send streamed bodies from "
    "such a task: what a stream's generator does to the loop is in the lag only.",
    "A step is counted when it ends: one that never does isn't here.",
    "WebSocket connections and the lifespan are passed through and not measured.",
    "The lag is measured while there are requests, so that an idle loop isn't woken; its timer is "
    "rounded to milliseconds.",
    "Threads of pools with names of their own count as other threads.",
)


def not_covered(app: Any, *, had_several_loops: bool) -> list[str]:
    """List it, for the application that is inside the monitor."""
    sentences = list(_ALWAYS)
    hidden = ", ".join(dict.fromkeys(_layers_with_child_tasks(app)))
    if hidden:
        sentences.append(
            f"{hidden} runs what is inside of it as another task: its routes' steps are NOT "
            "timed. Add LoopMonitor inside of it (with add_middleware: earlier), or write that "
            "middleware as plain ASGI."
        )
    if had_several_loops:
        sentences.append(
            "Several event loops share this monitor: a free one serves the timer while another "
            "is stalled, so there is no lag, and counts of the same moment may be lost."
        )
    return sentences


def _layers_with_child_tasks(app: Any) -> Iterator[str]:
    """Name the layers below `app` that are built on Starlette's BaseHTTPMiddleware."""
    layer, depth = app, 0
    while layer is not None and depth < 64:  # more layers than anyone has
        # A layer that is there, and an application that builds its own layers at its first call.
        waiting = [getattr(entry, "cls", None) for entry in getattr(layer, "user_middleware", ())]
        for kind in (type(layer), *waiting):
            names = {base.__name__ for base in getattr(kind, "__mro__", ())}
            if "BaseHTTPMiddleware" in names:
                yield getattr(kind, "__name__", "BaseHTTPMiddleware")
        layer, depth = getattr(layer, "app", None), depth + 1
