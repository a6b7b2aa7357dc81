"""What the monitor can't see, in plain words: a reader must know what a zero doesn't say."""

_ALWAYS = (
    "A step counts for a request if its own task runs it, or a task that it has started through "
    "the loop (asyncio.create_task, gather, task groups, streamed bodies, BaseHTTPMiddleware). "
    "Callbacks of the loop, tasks of nobody's request, tasks made by asyncio.Task directly, or by "
    "tasks in a context of their own, and what the server does outside of the application have no "
    "endpoint: where they stall the loop, the lag shows it.",
    "Threads aren't measured.",
    "A step is counted when it ends: one that never does isn't here.",
    "The lag is measured while there are requests, so that an idle loop isn't woken; its timer is "
    "rounded to milliseconds.",
    "Threads of pools with names of their own count as other threads.",
)

_SPLIT = (
    "Blocked time is told for steps only, and not in which call. It is the wall time that neither "
    "CPU nor the wait for a core explains, if the kernel counted a sleep or a major fault."
)

_LOCK = (
    "Whatever may have been a wait for the interpreter lock, by the CPU time of the process's "
    "other threads meanwhile, isn't counted as blocked (gil_ns). So beside threads that compute a "
    "blocking call may be taken for one, the more so in steps that compute for 5 ms themselves: "
    "blocked time is a lower bound there."
)


def not_covered(
    *,
    why_holds_only: str | None,
    has_interpreter_lock: bool,
    has_foreign_factory: bool,
    had_several_loops: bool,
) -> list[str]:
    """List it. `why_holds_only` is the reason why only wall time is measured, if that is so."""
    sentences = list(_ALWAYS)
    if why_holds_only is None:
        sentences.append(_SPLIT)
        if has_interpreter_lock:
            sentences.append(_LOCK)
    else:
        sentences.append(
            "Why a step was long isn't told: blocked time, CPU and the wait for a core aren't "
            f"measured, because {why_holds_only}."
        )
    if has_foreign_factory:
        sentences.append(
            "Another task factory was set on the loop after the monitor's: unless it hands on to "
            "the one before, the tasks that requests start are NOT measured. Set it before the "
            "first request."
        )
    if had_several_loops:
        sentences.append(
            "Several event loops share this monitor: a free one serves the timer while another "
            "is stalled, so there is no lag, and counts of the same moment may be lost."
        )
    return sentences
