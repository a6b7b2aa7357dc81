"""Drives a coroutine and measures each of its steps: what runs between two awaits holds the loop.

Timing around `await app(...)` would count the waits too, and take every slow database for a
blocked loop. So the coroutine is driven by hand, as `yield from` would drive it (PEP 380): what it
yields goes to the loop untouched, what the loop sends or throws goes to it, and only what happens
inside is measured. Nothing is patched, neither the loop nor its tasks.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unstall.account import Account
    from unstall.readings import ThreadMeter


class Steps(Coroutine[Any, Any, Any]):
    """A coroutine in the place of another one, to be awaited or given to a task.

    Every step begins and ends in `_step`. A step inside of a measured one, as eager tasks and
    applications that call each other make them, is a part of it and not counted again.
    """

    __slots__ = ("_account", "_coroutine", "_is_child", "_meter")

    def __init__(
        self,
        coroutine: Coroutine[Any, Any, Any],
        meter: ThreadMeter,
        account: Account,
        *,
        is_child: bool = False,
    ) -> None:
        self._coroutine = coroutine
        self._meter = meter
        self._account: Account | None = account
        self._is_child = is_child

    def _step(self, run: Callable[..., Any], *arguments: Any) -> Any:
        meter, account = self._meter, self._account
        if account is None or meter.running is not None:
            return run(*arguments)
        part = account.child_part if self._is_child else account.own_part
        meter.begin(self)
        try:
            return run(*arguments)
        finally:
            if meter.running is self:
                before, stretch = meter.before_mark, meter.end()
                if before is None:
                    account.count(part, stretch)
                else:
                    account.count(part, before.followed_by(stretch))
                    account.count_end(part, stretch)

    def hand_over(self) -> None:
        """End the step that runs, and measure no other one: somebody else takes over."""
        account, self._account = self._account, None
        if account is not None:
            account.count(account.child_part, self._meter.end())

    @property
    def serial(self) -> int:
        """The number of the request that it belongs to, for a tracer."""
        return 0 if self._account is None else self._account.serial

    def is_of(self, account: Account) -> bool:
        """Say whether its steps are charged to this account."""
        return self._account is account

    def serves_an_ended_response(self) -> bool:
        """Say whether it is a task that outlived the request that it was started by."""
        return self._is_child and self._account is not None and self._account.is_over

    def send(self, value: Any) -> Any:
        return self._step(self._coroutine.send, value)

    def throw(self, *error: Any) -> Any:
        return self._step(self._coroutine.throw, *error)

    def close(self) -> None:
        self._step(self._coroutine.close)

    def __next__(self) -> Any:
        return self._step(self._coroutine.send, None)

    def __iter__(self) -> Steps:
        return self

    def __await__(self) -> Any:
        return self

    def __getattr__(self, name: str) -> Any:
        # Its name, its frame, its state: debuggers and task groups see the coroutine's own.
        return getattr(self._coroutine, name)
