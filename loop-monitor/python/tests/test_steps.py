"""A coroutine that is driven and timed behaves as one that is awaited, whatever happens to it."""

import asyncio
import contextlib
import contextvars
import gc
import inspect
import traceback
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from typing import Any

import pytest
from asgi_client import Clock

from unstall.conservation import Stretch
from unstall.endpoints import CHILD, HANDLER
from unstall.readings import meter_of_this_thread
from unstall.steps import Steps

Wrap = Callable[[Coroutine[Any, Any, Any]], Coroutine[Any, Any, Any]]


class Holds:
    """An account that only lists."""

    own_part, child_part, is_over = HANDLER, CHILD, False

    def __init__(self, holds: list[int]) -> None:
        self._holds = holds

    def count(self, part: str, stretch: Stretch) -> None:
        assert part is HANDLER
        self._holds.append(stretch.wall_ns)


async def driven(coroutine: Coroutine[Any, Any, Any], holds: list[int] | None = None) -> Any:
    account: Any = Holds([] if holds is None else holds)
    return await Steps(coroutine, meter_of_this_thread(), account)


def test_only_the_time_between_awaits_is_counted(clock: Clock) -> None:
    async def work() -> None:
        clock.advance_ms(3)
        await asyncio.sleep(0)
        clock.advance_ms(4)

    async def waits() -> None:
        task = asyncio.ensure_future(work())
        # A wait for something else: what the loop does meanwhile isn't this one's.
        clock.advance_ms(1)
        await task
        clock.advance_ms(2)

    holds: list[int] = []
    asyncio.run(driven(waits(), holds))
    assert holds == [1_000_000, 2_000_000]


def test_a_value_comes_out() -> None:
    async def inner() -> int:
        await asyncio.sleep(0)
        return 7

    assert asyncio.run(driven(inner())) == 7


def test_a_step_inside_of_a_step_is_a_part_of_it(clock: Clock) -> None:
    """As an eager task makes it: its first step runs while its parent's does."""
    holds: list[int] = []

    async def inner() -> None:
        clock.advance_ms(1)

    async def outer() -> None:
        with pytest.raises(StopIteration):
            driven(inner(), holds).send(None)
        clock.advance_ms(2)

    asyncio.run(driven(outer(), holds))
    assert holds == [3_000_000]


def test_debuggers_see_the_coroutine_itself() -> None:
    async def inner() -> None:
        await asyncio.Event().wait()

    async def main() -> None:
        account: Any = Holds([])
        coroutine = inner()
        steps: Any = Steps(coroutine, meter_of_this_thread(), account)
        assert inspect.getcoroutinestate(steps) == inspect.CORO_CREATED
        task = asyncio.ensure_future(steps)
        await asyncio.sleep(0)
        assert inspect.getcoroutinestate(steps) == inspect.CORO_SUSPENDED
        assert [frame.f_code.co_name for frame in task.get_stack()] == ["inner"]
        assert "inner() running at" in repr(task)
        assert steps.__qualname__.endswith("inner")
        task.cancel()
        await asyncio.wait([task])

    asyncio.run(main())


def test_a_step_that_fails_is_counted(clock: Clock) -> None:
    async def fails() -> None:
        await asyncio.sleep(0)
        clock.advance_ms(7)
        raise KeyError

    holds: list[int] = []
    with pytest.raises(KeyError):
        asyncio.run(driven(fails(), holds))
    assert holds == [0, 7_000_000]


def test_exceptions_come_out_as_they_are() -> None:
    error = ValueError("as it is")
    cause = OSError("why")

    async def inner() -> None:
        await asyncio.sleep(0)
        raise error from cause

    async def main() -> None:
        await driven(inner())

    with pytest.raises(ValueError, match="as it is") as caught:
        asyncio.run(main())
    assert caught.value is error
    assert caught.value.__cause__ is cause
    assert caught.value.__context__ is None
    names = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
    assert names[-1] == "inner"


def test_an_exception_from_an_await_arrives_where_it_was_awaited() -> None:
    seen: list[BaseException] = []

    async def main() -> None:
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def inner() -> None:
            try:
                await future
            except LookupError as error:
                seen.append(error)
                assert error.__context__ is None
            await asyncio.sleep(0)

        task = asyncio.ensure_future(driven(inner()))
        await asyncio.sleep(0)
        future.set_exception(LookupError())
        await task

    asyncio.run(main())
    assert [type(error) for error in seen] == [LookupError]


@pytest.mark.parametrize("swallows", [False, True])
def test_cancellation_reaches_the_code_and_its_answer_counts(*, swallows: bool) -> None:
    events: list[str] = []

    async def inner() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            events.append("cancelled")
            await asyncio.sleep(0)
            events.append("cleaned up")
            if not swallows:
                raise

    async def main() -> bool:
        task = asyncio.ensure_future(driven(inner()))
        await asyncio.sleep(0)
        task.cancel("stop")
        await asyncio.wait([task])
        return task.cancelled()

    assert asyncio.run(main()) is not swallows
    assert events == ["cancelled", "cleaned up"]


def test_timeouts_work_inside_and_outside() -> None:
    async def inner() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 0.01)
        await asyncio.Event().wait()

    async def main() -> None:
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(driven(inner()), 0.1)

    asyncio.run(main())


def test_a_dropped_task_closes_the_code(clock: Clock) -> None:
    events: list[str] = []
    holds: list[int] = []

    async def inner() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            clock.advance_ms(5)
            events.append("closed")

    # What the loop does with a task that nobody will wake: the coroutine is closed.
    async def main() -> None:
        outer = driven(inner(), holds)
        outer.send(None)
        outer.close()

    asyncio.run(main())
    assert events == ["closed"]
    assert holds == [0, 5_000_000]


def test_code_that_refuses_to_close_is_told_as_it_would_be_without() -> None:
    async def stubborn() -> None:
        with contextlib.suppress(GeneratorExit):
            await asyncio.sleep(0)
        await asyncio.sleep(0)

    wraps: list[Wrap] = [lambda coroutine: coroutine, driven]
    for wrap in wraps:
        coroutine = wrap(stubborn())
        coroutine.send(None)
        with pytest.raises(RuntimeError, match="ignored GeneratorExit"):
            coroutine.close()


def test_context_variables_are_those_of_the_task() -> None:
    variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")
    seen: list[str] = []

    async def inner() -> None:
        seen.append(variable.get())
        variable.set("inside")
        await asyncio.sleep(0)
        seen.append(variable.get())

    async def main() -> None:
        variable.set("outside")
        await driven(inner())
        seen.append(variable.get())

    asyncio.run(main())
    assert seen == ["outside", "inside", "inside"]


def test_async_generators_and_context_managers_run_in_order() -> None:
    events: list[str] = []

    async def items() -> AsyncIterator[int]:
        try:
            for item in range(3):
                await asyncio.sleep(0)
                yield item
        finally:
            events.append("generator closed")

    async def inner() -> None:
        generator = items()
        async for item in generator:
            events.append(f"item {item}")
            if item == 1:
                break
        await generator.aclose()  # type: ignore[attr-defined]

    asyncio.run(driven(inner()))
    assert events == ["item 0", "item 1", "generator closed"]


def test_the_current_task_is_the_one_that_drives() -> None:
    async def inner() -> asyncio.Task[Any] | None:
        return asyncio.current_task()

    async def main() -> None:
        current = asyncio.current_task()

        async def check() -> None:
            assert await inner() is current

        await driven(check())

    asyncio.run(main())


def test_nothing_keeps_an_exception_alive() -> None:
    class Heavy(Exception):  # noqa: N818
        pass

    async def main() -> "weakref.ref[Heavy]":
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        waiting = [future]

        async def inner() -> None:
            with contextlib.suppress(Heavy):
                await waiting.pop()
            await asyncio.sleep(0)

        task = asyncio.ensure_future(driven(inner()))
        await asyncio.sleep(0)
        error = Heavy()
        held = weakref.ref(error)
        future.set_exception(error)
        del error, future
        await task
        return held

    gc.disable()
    try:
        assert asyncio.run(main())() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("await_it", [lambda waiting: waiting, driven])
def test_hand_made_awaitables_get_what_the_loop_sends(
    await_it: Callable[[Any], Awaitable[None]],
) -> None:
    class Once:
        def __await__(self) -> Any:
            got = yield "a request to the loop"
            assert got == "an answer"

    async def inner() -> None:
        await Once()

    async def outer() -> None:
        await await_it(inner())

    coroutine = outer()
    assert coroutine.send(None) == "a request to the loop"
    with pytest.raises(StopIteration):
        coroutine.send("an answer")
