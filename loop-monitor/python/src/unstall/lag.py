"""How late the loop serves a timer: the delay that everything else on it feels too.

The probe's deadlines lie on a fixed grid, so its own lateness never moves the next one. A stall
over several deadlines counts once for each of them, as late as each was.

It runs only while there are requests: a loop without work isn't woken (the last deadline after a
request is its last). So it shows what requests feel, and not what a loop does when there are none.
Timers of both asyncio and uvloop are rounded to milliseconds, which is the floor of what it shows.
"""

import asyncio
import contextvars
import math
from time import monotonic_ns

from unstall.histogram import Histogram

LAG_PROBE_PERIOD_NS = 50_000_000
"""Twenty wake-ups a second, as the monitor for Tokio has them."""

_MILLISECOND_NS = 1_000_000


class LagProbe:
    """Watches one loop, on that loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop, lag: Histogram) -> None:
        self._loop = loop
        self._lag = lag
        self._in_flight = 0
        self._deadline_ns: int | None = None
        # A timer would carry the variables of the request that happened to start it.
        self._context = contextvars.Context()

    def request_began(self) -> None:
        self._in_flight += 1
        if self._deadline_ns is None:
            now_ns = monotonic_ns()
            next_ns = (now_ns // LAG_PROBE_PERIOD_NS + 1) * LAG_PROBE_PERIOD_NS
            self._wait_for(next_ns, now_ns)

    def look_once(self) -> None:
        """Look at the next deadline, and at no further one unless there are requests."""
        self.request_began()
        self.request_ended()

    def request_ended(self) -> None:
        self._in_flight -= 1

    def _wait_for(self, deadline_ns: int, now_ns: int) -> None:
        self._deadline_ns = deadline_ns
        # Whole milliseconds: uvloop would round down, and spin until the deadline has come.
        delay_ms = math.ceil((deadline_ns - now_ns) / _MILLISECOND_NS)
        self._loop.call_later(delay_ms / 1e3, self._look, deadline_ns, context=self._context)

    def _look(self, deadline_ns: int) -> None:
        now_ns = monotonic_ns()
        while deadline_ns <= now_ns:
            self._lag.record(now_ns - deadline_ns)
            deadline_ns += LAG_PROBE_PERIOD_NS
        if self._in_flight > 0:
            self._wait_for(deadline_ns, now_ns)
        else:
            self._deadline_ns = None
