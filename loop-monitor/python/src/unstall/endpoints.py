"""The counters of each endpoint, for as many endpoints as allowed."""

from unstall.histogram import Histogram
from unstall.warning import WarningState

UNMATCHED = "(unmatched)"
"""The route of requests that no route matched."""
OTHER = "(other)"
"""The route of requests beyond the cap."""

_ROUTE_CHARACTERS_MAX = 512
"""A longer route is no template."""

_METHODS = frozenset(
    ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "CONNECT", "PATCH", "TRACE"),
)


class Endpoint:
    """What the requests of one method and route did to the loop. Counters only grow."""

    __slots__ = (
        "hold",
        "hold_ns_max",
        "hold_ns_sum",
        "method",
        "over_1_ms",
        "over_10_ms",
        "over_100_ms",
        "request_hold_ns_max",
        "requests",
        "route",
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
        self.warnings = WarningState()

    def count_step(self, hold_ns: int, request_hold_ns: int) -> None:
        """Count one step, and what the steps of its request came to so far.

        A request's sum only grows, so the largest one seen is that of a whole request, and one
        that never ends counts too.
        """
        self.hold.record(hold_ns)
        self.hold_ns_sum += hold_ns
        if hold_ns > self.hold_ns_max:
            self.hold_ns_max = hold_ns
        if request_hold_ns > self.request_hold_ns_max:
            self.request_hold_ns_max = request_hold_ns
        if hold_ns > 1_000_000:
            self.over_1_ms += 1
            if hold_ns > 10_000_000:
                self.over_10_ms += 1
            if hold_ns > 100_000_000:
                self.over_100_ms += 1


class Endpoints:
    """Every endpoint seen."""

    def __init__(self, endpoints_max: int) -> None:
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
