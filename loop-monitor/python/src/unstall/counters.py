"""Counters of the service's own, by name: what it knows to be wrong with itself."""

import os
from threading import Lock
from weakref import WeakSet


class Counter:
    """A number that only grows. Any thread may add to it."""

    def __init__(self) -> None:
        self._value = 0
        self._lock = Lock()

    def add(self, n: int = 1) -> None:
        """Add to it.

        Raises `ValueError` for less than 0: a reader takes what fell for another process.
        """
        if n < 0:
            message = f"a counter only grows; got {n}"
            raise ValueError(message)
        # An addition alone isn't one step of the interpreter.
        with self._lock:
            self._value += n

    @property
    def value(self) -> int:
        """What was added since the process started."""
        return self._value

    def begin_anew(self) -> None:
        """Forget what another process counted before it was forked, its lock included."""
        self._lock = Lock()
        self._value = 0


class Counters:
    """Every counter by its name."""

    def __init__(self) -> None:
        self._by_name: dict[str, Counter] = {}
        _all.add(self)

    def named(self, name: str) -> Counter:
        """Give the counter of that name; of two threads that ask first, both get the same."""
        return self._by_name.setdefault(name, Counter())

    def values(self) -> dict[str, int]:
        """Give all of them, by name in order."""
        return {name: counter.value for name, counter in sorted(self._by_name.copy().items())}

    def begin_anew(self) -> None:
        """Start at 0 in a process that was forked; who holds a counter keeps it."""
        for counter in self._by_name.copy().values():
            counter.begin_anew()


_all: WeakSet[Counters] = WeakSet()


def _begin_all_anew() -> None:
    for counters in _all:
        counters.begin_anew()


# At the fork itself: a worker may count before its first request.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_begin_all_anew)
