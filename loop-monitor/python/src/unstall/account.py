"""What one request, or one WebSocket connection, did to the loop, and where it is counted."""

from __future__ import annotations

import math
from time import monotonic_ns
from typing import TYPE_CHECKING

from unstall.endpoints import AFTER, BODY, CHILD, HANDLER, Endpoint, Endpoints
from unstall.proof import proof_memory
from unstall.readings import meter_of_this_thread
from unstall.route import route_template
from unstall.stalls import THRESHOLD_NS
from unstall.warning import warn_of_hold

if TYPE_CHECKING:
    from collections.abc import Callable

    from unstall.asgi import Message, Scope
    from unstall.conservation import Stretch
    from unstall.readings import ThreadMeter

WEBSOCKET = "WEBSOCKET"
"""In the place of a method."""

_UNROUTED_STEPS_MAX = 1_024
"""A request that hasn't found a route after so many steps is counted as unmatched."""

_ENDS_A_RESPONSE = ("http.response.body", "http.response.pathsend")


class Account:
    """The steps of one request in all its tasks; those before its route is known wait for it.

    `on_step` is called after each step.
    """

    __slots__ = (
        "_endpoint",
        "_endpoints",
        "_hold_ns_sum",
        "_method",
        "_note_over_ns",
        "_on_step",
        "_scope",
        "_unrouted",
        "_unrouted_ends",
        "_warn_over_ns",
        "child_part",
        "is_over",
        "own_part",
        "serial",
    )

    def __init__(
        self,
        scope: Scope,
        endpoints: Endpoints,
        warn_over_ns: int | None,
        on_step: Callable[[], None] | None = None,
    ) -> None:
        self._scope: Scope | None = scope
        self._method: str = scope["method"] if scope["type"] == "http" else WEBSOCKET
        self._endpoints = endpoints
        self._endpoint: Endpoint | None = None
        self._warn_over_ns = math.inf if warn_over_ns is None else warn_over_ns
        self._note_over_ns = min(self._warn_over_ns, THRESHOLD_NS)
        self._on_step = on_step
        self._hold_ns_sum = 0
        proof = proof_memory()
        self.serial = 0 if proof is None else proof.request()
        """What a tracer calls it by."""
        self._unrouted: list[tuple[str, Stretch, int]] = []
        self._unrouted_ends: list[tuple[str, Stretch]] = []
        self.own_part = HANDLER
        """Of steps of the request's own task that begin now."""
        self.child_part = CHILD
        """Of steps of the tasks that it started."""
        self.is_over = False
        """Nobody waits for it any more: what still runs comes after the response."""

    def count(self, part: str, stretch: Stretch) -> None:
        """Count a step of this thread that has just ended, and began in `part`."""
        endpoint = self._endpoint
        if endpoint is None:
            is_long = stretch[0] > self._note_over_ns
            began_ns = meter_of_this_thread().whole_began_ns() if is_long else 0
            self._unrouted.append((part, stretch, began_ns))
            self._look_for_route()
        else:
            self._count_step(endpoint, part, stretch)
            if stretch[0] > self._note_over_ns:
                began_ns = meter_of_this_thread().whole_began_ns()
                self._note(endpoint, part, stretch, began_ns)
        if self._on_step is not None:
            self._on_step()

    def _count_step(self, endpoint: Endpoint, part: str, stretch: Stretch) -> None:
        if part is not AFTER:
            self._hold_ns_sum += stretch[0]
        endpoint.count_step(part, stretch, self._hold_ns_sum)

    def _note(self, endpoint: Endpoint, part: str, stretch: Stretch, began_ns: int) -> None:
        """Tell of a step that was long."""
        if stretch.wall_ns > THRESHOLD_NS:
            self._endpoints.stalls.note(endpoint.name, part, began_ns, stretch)
        if stretch.wall_ns > self._warn_over_ns:
            warn_of_hold(endpoint, stretch, monotonic_ns())

    def count_end(self, part: str, end: Stretch) -> None:
        """Charge the end of a step that was just counted in `part` to what comes after."""
        if self._endpoint is None:
            self._unrouted_ends.append((part, end))
        else:
            self._endpoint.move(part, AFTER, end)

    def note_sent(self, message: Message, meter: ThreadMeter) -> None:
        """Follow the response: the work after it is told apart, also within one step."""
        kind = message["type"]
        if kind == "http.response.start":
            self.own_part = BODY if self.own_part is HANDLER else self.own_part
        elif kind in _ENDS_A_RESPONSE and not message.get("more_body", False):
            self._be_over()
            running = meter.running
            if running is not None and running.is_of(self):
                meter.mark()

    def name_route(self, route: str | None) -> None:
        """Learn the route from a framework that doesn't leave it in the scope."""
        if self._endpoint is None:
            self._settle(route)

    def end(self) -> None:
        """Learn that the application has returned."""
        self._be_over()
        if self._endpoint is None and self._scope is not None:
            self._settle(route_template(self._scope, ended=True))

    def _be_over(self) -> None:
        self.own_part = self.child_part = AFTER
        self.is_over = True

    def _look_for_route(self) -> None:
        if self._scope is not None:
            route = route_template(self._scope, ended=False)
            if route is not None or len(self._unrouted) >= _UNROUTED_STEPS_MAX:
                self._settle(route)

    def _settle(self, route: str | None) -> None:
        endpoint = self._endpoint = self._endpoints.find(self._method, route)
        endpoint.requests += 1
        proof = proof_memory()
        if proof is not None:
            proof.settle(self.serial, endpoint.name)
        self._scope = None  # tasks may outlive the request, and should not keep it
        steps, self._unrouted = self._unrouted, []
        for part, stretch, began_ns in steps:
            self._count_step(endpoint, part, stretch)
            if stretch.wall_ns > self._note_over_ns:
                self._note(endpoint, part, stretch, began_ns)
        for part, end in self._unrouted_ends:
            endpoint.move(part, AFTER, end)
