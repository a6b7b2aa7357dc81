"""The tasks that a request starts, measured by a task factory of the loop.

A factory (`loop.set_task_factory`) is asyncio's own way to see a task begin. Ours hands the
coroutine on within `Steps` if a request started it, to the factory that was there or to
`asyncio.Task`, and changes nothing else: names, contexts, cancellation and eager starts are the
task's own business. Which request that is, a context variable says, which tasks and threads inherit
from who starts them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from unstall.steps import Steps

if TYPE_CHECKING:
    from unstall.account import Account
    from unstall.readings import ThreadMeter

current_account: ContextVar[Account | None] = ContextVar("unstall.account", default=None)
"""The request that this code works for."""

_EAGER_CODE = getattr(getattr(asyncio, "eager_task_factory", None), "__code__", None)
"""Of every factory that `asyncio.create_eager_task_factory` makes: Python 3.12 and newer."""

_Factory = Callable[..., Any]

_of_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, ChildTasks] = WeakKeyDictionary()


class ChildTasks:
    """What one loop's tasks are made by."""

    def __init__(self, loop: asyncio.AbstractEventLoop, meter: ThreadMeter) -> None:
        self.meter = meter
        earlier: _Factory | None = loop.get_task_factory()
        self._make: Any = earlier
        self._factory = self._from_scratch if earlier is None else self._chained
        if earlier is not None and getattr(earlier, "__code__", None) is _EAGER_CODE is not None:
            self._factory = self._eager(earlier)
        loop.set_task_factory(self._factory)

    @classmethod
    def of(cls, loop: asyncio.AbstractEventLoop, meter: ThreadMeter) -> ChildTasks:
        """Give those of a loop, which every monitor on it shares."""
        installed = _of_loop.get(loop)
        if installed is None or not installed.is_installed(loop):
            installed = _of_loop[loop] = cls(loop, meter)
        installed.meter = meter
        return installed

    def is_installed(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Say whether the loop still has this factory, and not one that was set later."""
        return loop.get_task_factory() == self._factory

    def _from_scratch(self, loop: Any, coroutine: Any, **settings: Any) -> Any:
        return asyncio.Task(self._measured(coroutine), loop=loop, **settings)

    def _chained(self, loop: Any, coroutine: Any, **settings: Any) -> Any:
        return self._make(loop, self._measured(coroutine), **settings)

    def _eager(self, earlier: Any) -> _Factory:
        """Make an eager factory anew, around the constructor of the one before.

        So it remains one that others know for eager: task groups of anyio then call its constructor
        themselves, without an eager start.
        """
        make: _Factory = earlier.__closure__[0].cell_contents

        def constructor(coroutine: Any, **settings: Any) -> Any:
            return make(self._measured(coroutine), **settings)

        eager: _Factory = asyncio.create_eager_task_factory(constructor)  # type: ignore[attr-defined]
        return eager

    def _measured(self, coroutine: Any) -> Any:
        account = current_account.get()
        if account is None or isinstance(coroutine, Steps):
            return coroutine
        return Steps(coroutine, self.meter, account, is_child=True)
