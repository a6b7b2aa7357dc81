"""The middleware: watches the requests of one process, and answers with what it knows."""

import asyncio
import contextlib
import json
from contextvars import Token
from time import monotonic_ns
from typing import Any

from unstall import prometheus, snapshot
from unstall.access import REFUSAL_PREFIX, refusal
from unstall.account import Account
from unstall.asgi import ASGIApp, Message, Receive, Scope, Send
from unstall.blindness import not_covered
from unstall.child_tasks import current_account
from unstall.counters import Counter, Counters
from unstall.endpoints import Endpoints
from unstall.process import ProcessStart, WatchedLoop
from unstall.proof import proof_memory
from unstall.quart_routes import watch_quart
from unstall.readings import has_interpreter_lock, why_not_split
from unstall.snapshot import METRICS_PATH, SNAPSHOT_PATH, HistogramCounts, Snapshot
from unstall.steps import Steps
from unstall.threads import count_threads

_DIGITS_MAX = 20
"""Of the largest number of 64 bits."""

_MARK = "unstall.monitored"
"""In a request's scope: an outer monitor counts it already."""


class LoopMonitor:
    """ASGI middleware that measures how long each request holds the event loop, and why.

    It sees what lies inside of it, so put it outermost. Tasks that a request starts count for it,
    and so do the steps of a WebSocket connection.

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
        self._counters = Counters()
        why_not_split()  # asks the kernel, once per process and not within a request
        proof_memory()  # where a tracer looks before the first request
        self._begin_anew()

    def _begin_anew(self) -> None:
        self._endpoints = Endpoints(self._endpoints_max)
        self._start = ProcessStart()
        self._watched: WatchedLoop | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request or a WebSocket connection through the application."""
        kind = scope["type"]
        if kind not in ("http", "websocket") or _MARK in scope:
            await self.app(scope, receive, send)
            return
        watched = self._meet_loop()
        if kind == "websocket":
            # It may be open for hours without a message, so the lag is looked at after its steps.
            account = Account(scope, self._endpoints, self._warn_over_ns, watched.probe.look_once)
            await self._measure(watched, account, scope, receive, send)
            return
        own = self._own_path(scope)
        if own is not None:
            await self._answer(own, scope, send)
            return
        account = Account(scope, self._endpoints, self._warn_over_ns)
        meter = watched.meter

        async def send_and_note(message: Message) -> None:
            await send(message)
            account.note_sent(message, meter)

        watched.probe.request_began()
        try:
            await self._measure(watched, account, scope, receive, send_and_note)
        finally:
            watched.probe.request_ended()

    async def _measure(
        self, watched: WatchedLoop, account: Account, scope: Scope, receive: Receive, send: Send
    ) -> None:
        scope[_MARK] = True
        running = watched.meter.running
        if running is not None and running.serves_an_ended_response():
            # A server that goes on to the next request of a connection in the last one's context.
            running.hand_over()
        before = current_account.set(account)
        try:
            await Steps(_call(self.app, scope, receive, send), watched.meter, account)
        finally:
            account.end()
            _reset(before)

    def snapshot(self, *, stalls_after: int | None = None) -> Snapshot:
        """Give everything the monitor knows now. Counters only grow; take differences.

        Of the long steps it tells the newest few, or all after a number that are kept.
        """
        if not self._start.is_this_process():
            self._begin_anew()
        start = self._start
        loops = start.loops()
        why_holds_only = why_not_split()
        is_split = why_holds_only is None
        lag = None if start.had_several_loops else HistogramCounts(log2_us=start.lag.trimmed())
        return Snapshot(
            schema=snapshot.schema(),
            start_id=start.start_id,
            mono_ns=monotonic_ns(),
            runtime=start.runtime,
            mode="full-split" if is_split else "holds",
            loops=loops,
            endpoints={
                endpoint.name: snapshot.counters(endpoint, is_split=is_split)
                for endpoint in self._endpoints.used()
            },
            loop_lag=lag,
            counters=self._counters.values(),
            stalls=snapshot.stalls_told(self._endpoints.stalls, stalls_after, is_split=is_split),
            threads=count_threads(loops),
            not_covered=not_covered(
                why_holds_only=why_holds_only,
                has_interpreter_lock=has_interpreter_lock(),
                has_foreign_factory=start.has_foreign_factory(),
                had_several_loops=start.had_several_loops,
            ),
        )

    def counter(self, name: str) -> Counter:
        """Give the counter of that name, made at 0 if there was none: it only grows.

        Names end up in snapshots, records and Prometheus labels, so let them be few and fixed, such
        as `jobs_dropped`. Any thread may add.
        """
        return self._counters.named(name)

    def _meet_loop(self) -> WatchedLoop:
        loop = asyncio.get_running_loop()
        watched = self._watched
        if watched is None or not watched.is_this(loop):
            if not self._start.is_this_process():
                self._begin_anew()  # forked after the application was loaded
            watched = self._watched = self._start.watch(loop)
            watch_quart()
        return watched

    def _own_path(self, scope: Scope) -> str | None:
        path: str = scope["path"]
        root = scope.get("root_path", "")
        # Servers put the root before the path, which is what a router takes off again.
        if root and path.startswith(root):
            path = path[len(root) :]
        return path if path in (self._snapshot_path, self._metrics_path) else None

    async def _answer(self, path: str, scope: Scope, send: Send) -> None:
        content_type, headers = b"text/plain; charset=utf-8", []
        reason, after = refusal(scope, self._token), _stalls_after(scope)
        if reason is not None:
            status, body = 403, f"{REFUSAL_PREFIX}{reason}\n"
        elif isinstance(after, str):
            status, body = 400, f"{REFUSAL_PREFIX}{after}\n"
        elif scope["method"] not in ("GET", "HEAD"):
            status, body = 405, f"{REFUSAL_PREFIX}only GET and HEAD are answered here\n"
            headers.append((b"allow", b"GET, HEAD"))
        elif path == self._snapshot_path:
            status, body = 200, _compact(self.snapshot(stalls_after=after))
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


def _compact(document: Snapshot) -> str:
    return json.dumps(document, separators=(",", ":"))


def _stalls_after(scope: Scope) -> int | str | None:
    """Give the number that the query asks for, if it does, or what is wrong with it."""
    prefix = f"{snapshot.STALLS_AFTER}=".encode()
    for parameter in scope.get("query_string", b"").split(b"&"):
        if parameter.startswith(prefix):
            number = parameter[len(prefix) :]
            if not number.isdigit() or len(number) > _DIGITS_MAX:
                return f"{snapshot.STALLS_AFTER}: a whole number is expected, such as 42"
            return int(number)
    return None


def _reset(token: Token[Account | None]) -> None:
    # A task that was dropped is closed from elsewhere, and its context is gone with it.
    with contextlib.suppress(ValueError):
        current_account.reset(token)


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
