"""Drives a coroutine and times each of its steps: what runs between two awaits holds the loop.

Timing around `await app(...)` would count the waits too, and take every slow database for a
blocked loop. So the coroutine is driven by hand, as `yield from` would drive it (PEP 380): what it
yields goes to the loop untouched, what the loop sends or throws goes to it, and only the time
inside is counted. Nothing is patched, neither the loop nor its tasks.
"""

import types
from collections.abc import Callable, Coroutine, Generator
from time import perf_counter_ns
from typing import Any


@types.coroutine
def timed(
    coroutine: Coroutine[Any, Any, None], count: Callable[[int], None]
) -> Generator[Any, Any, None]:
    """Run the coroutine to its end and give `count` the wall time of each step, in nanoseconds."""
    send, throw = coroutine.send, coroutine.throw
    value: Any = None
    thrown: BaseException | None = None
    while True:
        began_ns = perf_counter_ns()
        try:
            awaited = send(value) if thrown is None else throw(thrown)
        except StopIteration:
            return
        finally:
            # Also ends the cycle of the exception, its traceback and this frame.
            thrown = None
            count(perf_counter_ns() - began_ns)
        try:
            value = yield awaited
        except GeneratorExit:
            # The task was dropped: what the coroutine still does is its last step.
            began_ns = perf_counter_ns()
            try:
                coroutine.close()
            finally:
                count(perf_counter_ns() - began_ns)
            raise
        except BaseException as error:  # noqa: BLE001 - the coroutine gets it
            thrown = error
