"""What the monitor knows of its process: which start of it this is, and its loops.

A server may load the application first and fork afterwards, and each worker is a start of its
own. So nothing is settled before the first request, which shows the loop that will run them all.
"""

import asyncio
import itertools
import os
from threading import get_ident
from time import monotonic_ns

from unstall.child_tasks import ChildTasks
from unstall.histogram import Histogram
from unstall.lag import LagProbe
from unstall.readings import meter_of_this_thread

_serial = itertools.count()


class WatchedLoop:
    """One loop, with what watches it. To be made on the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, lag: Histogram) -> None:
        self.meter = meter_of_this_thread()
        self.probe = LagProbe(loop, lag)
        self._loop = loop
        self._children = ChildTasks.of(loop, self.meter)

    def is_this(self, loop: asyncio.AbstractEventLoop) -> bool:
        """Say whether it is this loop, in the thread and the process that ran it before."""
        meter = self.meter
        return loop is self._loop and meter.thread == get_ident() and meter.pid == os.getpid()

    def has_foreign_factory(self) -> bool:
        """Say whether a task factory was set after the monitor's own."""
        return not self._loop.is_closed() and not self._children.is_installed(self._loop)


class ProcessStart:
    """One process as one monitor sees it."""

    def __init__(self) -> None:
        # A number of a process comes again, a moment with it doesn't.
        self.start_id = f"{os.getpid():x}-{monotonic_ns():x}-{next(_serial):x}"
        self.lag = Histogram()
        self.runtime = "asyncio"
        self.had_several_loops = False
        self._pid = os.getpid()
        self._loops: dict[asyncio.AbstractEventLoop, WatchedLoop] = {}

    def is_this_process(self) -> bool:
        return self._pid == os.getpid()

    def loops(self) -> int:
        """Count the loops that aren't closed."""
        return sum(not loop.is_closed() for loop in list(self._loops))

    def has_foreign_factory(self) -> bool:
        """Say whether tasks of a loop may be made by a factory that was set later."""
        return any(watched.has_foreign_factory() for watched in list(self._loops.values()))

    def watch(self, loop: asyncio.AbstractEventLoop) -> WatchedLoop:
        """Give what watches a loop, which may be new here or may run in another thread now."""
        watched = self._loops.get(loop)
        if watched is None or not watched.is_this(loop):
            self._loops = {
                known: watched
                for known, watched in self._loops.items()
                if known is not loop and not known.is_closed()
            }
            self.had_several_loops = self.had_several_loops or bool(self._loops)
            self.runtime = "uvloop" if type(loop).__module__.startswith("uvloop") else "asyncio"
            watched = self._loops[loop] = WatchedLoop(loop, self.lag)
        return watched
