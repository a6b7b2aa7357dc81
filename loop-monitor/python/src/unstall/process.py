"""What the monitor knows of its process: which start of it this is, and its loops.

A server may load the application first and fork afterwards, and each worker is a start of its
own. So nothing is settled before the first request, which shows the loop that will run them all.
"""

import asyncio
import itertools
import os
from time import monotonic_ns

from unstall.histogram import Histogram
from unstall.lag import LagProbe

_serial = itertools.count()


class ProcessStart:
    """One process as one monitor sees it."""

    def __init__(self) -> None:
        # A number of a process comes again, a moment with it doesn't.
        self.start_id = f"{os.getpid():x}-{monotonic_ns():x}-{next(_serial):x}"
        self.lag = Histogram()
        self.runtime = "asyncio"
        self.had_several_loops = False
        self._pid = os.getpid()
        self._probes: dict[asyncio.AbstractEventLoop, LagProbe] = {}

    def is_this_process(self) -> bool:
        return self._pid == os.getpid()

    def loops(self) -> int:
        """Count the loops that aren't closed."""
        return sum(not loop.is_closed() for loop in list(self._probes))

    def probe_of(self, loop: asyncio.AbstractEventLoop) -> LagProbe:
        """Give the lag probe of a loop, which may be new here."""
        probe = self._probes.get(loop)
        if probe is None:
            self._probes = {
                known: probe for known, probe in self._probes.items() if not known.is_closed()
            }
            self.had_several_loops = self.had_several_loops or bool(self._probes)
            self.runtime = "uvloop" if type(loop).__module__.startswith("uvloop") else "asyncio"
            probe = self._probes[loop] = LagProbe(loop, self.lag)
        return probe
