"""The counters of each endpoint, for as many endpoints as allowed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unstall.histogram import Histogram
from unstall.stalls import Stalls
from unstall.warning import WarningState

if TYPE_CHECKING:
    from unstall.conservation import Stretch

HANDLER, BODY, CHILD, AFTER = PARTS = ("handler", "body", "child", "after")
"""What a request's time on the loop is for: its own task until its response has begun and until it
has ended, the tasks that it starts, and whatever of it runs after the response."""

UNMATCHED = "(unmatched)"
"""The route of requests that no route matched."""
OTHER = "(other)"
"""The route of requests beyond the cap."""

_ROUTE_CHARACTERS_MAX = 512
"""A longer route is no template."""

_METHODS = frozenset(
    (
        *("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "CONNECT", "PATCH", "TRACE"),
        "WEBSOCKET",
    )
)

_BLOCK_NS_NOTED = 200_000
"""From here on a blocked step is counted as such."""


class Blocked:
    """Blocked time by class. Counters only grow."""

    __slots__ = ("events", "events_over_200us", "fault_ns", "gil_ns", "ns_max", "slept_ns")

    def __init__(self) -> None:
        self.slept_ns = 0
        self.fault_ns = 0
        self.gil_ns = 0
        self.events = 0
        self.events_over_200us = 0
        self.ns_max = 0

    def count(self, stretch: Stretch) -> None:
        self.gil_ns += stretch.gil_ns
        blocked_ns = stretch.slept_ns + stretch.fault_ns
        if blocked_ns == 0:
            return
        self.slept_ns += stretch.slept_ns
        self.fault_ns += stretch.fault_ns
        self.events += 1
        if blocked_ns >= _BLOCK_NS_NOTED:
            self.events_over_200us += 1
        if blocked_ns > self.ns_max:
            self.ns_max = blocked_ns


class Part:
    """One part of an endpoint's counters."""

    __slots__ = ("blocked_ns", "hold_ns_sum", "polls")

    def __init__(self) -> None:
        self.polls = 0
        self.hold_ns_sum = 0
        self.blocked_ns = 0


class Endpoint:
    """What the requests of one method and route did to the loop. Counters only grow."""

    __slots__ = (
        "blocked",
        "cpu_ns",
        "hold",
        "hold_ns_max",
        "hold_ns_sum",
        "method",
        "over_1_ms",
        "over_10_ms",
        "over_100_ms",
        "parts",
        "request_hold_ns_max",
        "requests",
        "route",
        "runqueue_ns",
        "warnings",
    )

    def __init__(self, method: str, route: str) -> None:
        self.method = method
        self.route = route
        self.requests = 0
        self.hold = Histogram()
        self.hold_ns_sum = 0
        self.hold_ns_max = 0
        self.request_hold_ns_max = 0
        self.over_1_ms = 0
        self.over_10_ms = 0
        self.over_100_ms = 0
        self.cpu_ns = 0
        self.runqueue_ns = 0
        self.blocked = Blocked()
        self.parts = {name: Part() for name in PARTS}
        self.warnings = WarningState()

    @property
    def name(self) -> str:
        """Its method and route, as the snapshot calls it."""
        return f"{self.method} {self.route}"

    def count_step(self, part_name: str, stretch: Stretch, request_hold_ns: int) -> None:
        """Count a step, and what the steps of its request came to so far.

        A request's sum only grows, so the largest one seen is that of a whole request, and one
        that never ends counts too.
        """
        hold_ns, cpu_ns, runqueue_ns, slept_ns, fault_ns, _ = stretch
        self.hold.record(hold_ns)
        self.hold_ns_sum += hold_ns
        self.cpu_ns += cpu_ns
        part = self.parts[part_name]
        part.polls += 1
        part.hold_ns_sum += hold_ns
        if request_hold_ns > self.request_hold_ns_max:
            self.request_hold_ns_max = request_hold_ns
        if hold_ns > self.hold_ns_max:
            self.hold_ns_max = hold_ns
        if hold_ns > 1_000_000:
            self.over_1_ms += 1
            if hold_ns > 10_000_000:
                self.over_10_ms += 1
            if hold_ns > 100_000_000:
                self.over_100_ms += 1
        if hold_ns > cpu_ns:
            # It was off its core.
            self.runqueue_ns += runqueue_ns
            self.blocked.count(stretch)
            part.blocked_ns += slept_ns + fault_ns

    def move(self, from_part: str, to_part: str, end: Stretch) -> None:
        """Charge the end of a step, which was counted with the whole, to the part it belongs to."""
        source, target = self.parts[from_part], self.parts[to_part]
        blocked_ns = end.slept_ns + end.fault_ns
        source.hold_ns_sum -= end.wall_ns
        source.blocked_ns -= blocked_ns
        target.hold_ns_sum += end.wall_ns
        target.blocked_ns += blocked_ns


class Endpoints:
    """Every endpoint seen, and the long steps of all of them."""

    def __init__(self, endpoints_max: int) -> None:
        self.stalls = Stalls()
        self._endpoints_max = endpoints_max
        self._by_name: dict[tuple[str, str], Endpoint] = {}
        self._unmatched = Endpoint("*", UNMATCHED)
        self._other = Endpoint("*", OTHER)

    def find(self, method: str, route: str | None) -> Endpoint:
        """Give the counters of a route; `None` means that no route matched."""
        if route is None:
            return self._unmatched
        # Methods are the client's choice and may be any word: the unusual ones share a name.
        name = (method if method in _METHODS else "OTHER", route)
        found = self._by_name.get(name)
        if found is not None:
            return found
        if len(self._by_name) >= self._endpoints_max or len(route) > _ROUTE_CHARACTERS_MAX:
            return self._other
        return self._by_name.setdefault(name, Endpoint(*name))

    def used(self) -> list[Endpoint]:
        """List the endpoints with a request, in the order of their routes."""
        everything = (*self._by_name.values(), self._unmatched, self._other)
        used = (endpoint for endpoint in everything if endpoint.requests > 0)
        return sorted(used, key=lambda endpoint: (endpoint.method, endpoint.route))
