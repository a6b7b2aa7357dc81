"""The middleware: watches the requests of one process, and answers with what it knows."""

import asyncio
import json
from time import monotonic_ns
from typing import Any

from unstall import prometheus, snapshot
from unstall.access import REFUSAL_PREFIX, refusal
from unstall.asgi import ASGIApp, Receive, Scope, Send
from unstall.blindness import not_covered
from unstall.endpoints import Endpoint, Endpoints
from unstall.lag import LagProbe
from unstall.process import ProcessStart
from unstall.route import route_template
from unstall.snapshot import METRICS_PATH, SNAPSHOT_PATH, HistogramCounts, Snapshot
from unstall.steps import timed
from unstall.threads import count_threads
from unstall.warning import warn_of_hold

_MARK = "unstall.monitored"
"""In a request's scope: an outer monitor counts it already."""

_UNROUTED_STEPS_MAX = 1_024
"""A request that hasn't found a route after so many steps is counted as unmatched."""


class LoopMonitor:
    """ASGI middleware that times how long each request holds the event loop.

    It sees what lies inside of it, but for what runs in tasks of its own, as everything inside a
    `BaseHTTPMiddleware` does: put it outermost, but inside of those.

    `snapshot_path` and `metrics_path` are where it answers, to a peer on the loopback interface
    that came without a proxy, and to who sends `token` as `Authorization: Bearer`. One step above
    `warn_over_ms` is warned about in the log "unstall" (`None`: never). Beyond `endpoints_max`
    routes, further ones share one name.
    """

    def __init__(  # noqa: PLR0913 - each is a name that the user may leave out
        self,
        app: ASGIApp,
        *,
        snapshot_path: str = SNAPSHOT_PATH,
        metrics_path: str = METRICS_PATH,
        token: str | None = None,
        warn_over_ms: float | None = 100.0,
        endpoints_max: int = 256,
    ) -> None:
        _check_paths(snapshot_path, metrics_path)
        _check_token(token)
        self.app = app
        self._snapshot_path = snapshot_path
        self._metrics_path = metrics_path
        self._token = token
        self._warn_over_ns = None if warn_over_ms is None else round(warn_over_ms * 1e6)
        self._endpoints_max = endpoints_max
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._endpoints = Endpoints(self._endpoints_max)
        self._start = ProcessStart()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._probe: LagProbe | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request through the application."""
        if scope["type"] != "http" or _MARK in scope:
            await self.app(scope, receive, send)
            return
        probe = self._meet_loop()
        own = self._own_path(scope)
        if own is not None:
            await self._answer(own, scope, send)
            return
        scope[_MARK] = True
        request = _Request(scope, self._endpoints, self._warn_over_ns)
        probe.request_began()
        try:
            await timed(_call(self.app, scope, receive, send), request.count_step)
        finally:
            probe.request_ended()
            request.end()

    def snapshot(self) -> Snapshot:
        """Give everything the monitor knows now. Counters only grow; take differences."""
        if not self._start.is_this_process():
            self._begin_anew()
        start = self._start
        loops = start.loops()
        lag = None if start.had_several_loops else HistogramCounts(log2_us=start.lag.trimmed())
        return Snapshot(
            schema=snapshot.schema(),
            start_id=start.start_id,
            mono_ns=monotonic_ns(),
            runtime=start.runtime,
            mode="holds",
            loops=loops,
            endpoints={
                f"{endpoint.method} {endpoint.route}": snapshot.counters(endpoint)
                for endpoint in self._endpoints.used()
            },
            loop_lag=lag,
            threads=count_threads(loops),
            not_covered=not_covered(self.app, had_several_loops=start.had_several_loops),
        )

    def _meet_loop(self) -> LagProbe:
        loop = asyncio.get_running_loop()
        if self._probe is None or loop is not self._loop:
            if not self._start.is_this_process():
                self._begin_anew()  # forked after the application was loaded
            self._loop, self._probe = loop, self._start.probe_of(loop)
        return self._probe

    def _own_path(self, scope: Scope) -> str | None:
        path: str = scope["path"]
        root = scope.get("root_path", "")
        # Servers put the root before the path, which is what a router takes off again.
        if root and path.startswith(root):
            path = path[len(root) :]
        return path if path in (self._snapshot_path, self._metrics_path) else None

    async def _answer(self, path: str, scope: Scope, send: Send) -> None:
        content_type, headers = b"text/plain; charset=utf-8", []
        reason = refusal(scope, self._token)
        if reason is not None:
            status, body = 403, f"{REFUSAL_PREFIX}{reason}\n"
        elif scope["method"] not in ("GET", "HEAD"):
            status, body = 405, f"{REFUSAL_PREFIX}only GET and HEAD are answered here\n"
            headers.append((b"allow", b"GET, HEAD"))
        elif path == self._snapshot_path:
            status, body = 200, json.dumps(self.snapshot(), separators=(",", ":"))
            content_type = b"application/json"
        else:
            status, body = 200, prometheus.render(self.snapshot())
            content_type = prometheus.CONTENT_TYPE.encode()
        data = body.encode()
        headers.append((b"content-type", content_type))
        headers.append((b"content-length", str(len(data)).encode()))
        await send({"type": "http.response.start", "status": status, "headers": headers})
        shown = b"" if scope["method"] == "HEAD" else data
        await send({"type": "http.response.body", "body": shown})


class _Request:
    """The steps of one request, kept until its route is known."""

    __slots__ = (
        "_endpoint",
        "_endpoints",
        "_hold_ns_sum",
        "_scope",
        "_unrouted_ns",
        "_warn_over_ns",
    )

    def __init__(self, scope: Scope, endpoints: Endpoints, warn_over_ns: int | None) -> None:
        self._scope = scope
        self._endpoints = endpoints
        self._warn_over_ns = warn_over_ns
        self._endpoint: Endpoint | None = None
        self._hold_ns_sum = 0
        self._unrouted_ns: list[int] = []

    def count_step(self, hold_ns: int) -> None:
        endpoint = self._endpoint
        if endpoint is None:
            self._unrouted_ns.append(hold_ns)
            route = route_template(self._scope, ended=False)
            if route is not None or len(self._unrouted_ns) >= _UNROUTED_STEPS_MAX:
                self._settle(route)
            return
        self._hold_ns_sum += hold_ns
        endpoint.count_step(hold_ns, self._hold_ns_sum)
        if self._warn_over_ns is not None and hold_ns > self._warn_over_ns:
            warn_of_hold(endpoint, hold_ns, monotonic_ns())

    def end(self) -> None:
        if self._endpoint is None:
            self._settle(route_template(self._scope, ended=True))

    def _settle(self, route: str | None) -> None:
        self._endpoint = self._endpoints.find(self._scope["method"], route)
        self._endpoint.requests += 1
        steps, self._unrouted_ns = self._unrouted_ns, []
        for hold_ns in steps:
            self.count_step(hold_ns)


async def _call(app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
    """Make a coroutine of whatever an application returns, its call included."""
    await app(scope, receive, send)


def _check_token(token: str | None) -> None:
    if token is None:
        return
    if not token.strip():
        message = "LoopMonitor: the token is empty and would let everyone in; leave it out"
        raise ValueError(message)
    if not (token.isascii() and token.isprintable()):
        message = "LoopMonitor: the token holds what can't be sent in a header: use plain letters"
        raise ValueError(message)


def _check_paths(*paths: Any) -> None:
    for path in paths:
        if not isinstance(path, str) or not path.startswith("/") or set("?#{} ") & set(path):
            message = (
                f"LoopMonitor: a path of plain segments is expected, such as {SNAPSHOT_PATH!r}, "
                f"and not {path!r}"
            )
            raise ValueError(message)
    if len(set(paths)) < len(paths):
        message = f"LoopMonitor: snapshot and metrics share the path {paths[0]!r}; part them"
        raise ValueError(message)
