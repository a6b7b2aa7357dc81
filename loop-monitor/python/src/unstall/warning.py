"""The warning about one step that held the loop for too long."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unstall.conservation import Stretch
    from unstall.endpoints import Endpoint

_QUIET_NS = 1_000_000_000
"""A stalled service must not drown its own log as well: once a second and endpoint."""

_logger = logging.getLogger("unstall")


class WarningState:
    """Per endpoint: when it last warned, and how often it kept quiet since."""

    __slots__ = ("_last_ns", "_suppressed")

    def __init__(self) -> None:
        self._last_ns: int | None = None
        self._suppressed = 0

    def admit(self, now_ns: int) -> int | None:
        """Say whether to speak now: how many warnings were kept back since the last one."""
        if self._last_ns is not None and now_ns - self._last_ns < _QUIET_NS:
            self._suppressed += 1
            return None
        suppressed, self._suppressed, self._last_ns = self._suppressed, 0, now_ns
        return suppressed


def warn_of_hold(endpoint: Endpoint, stretch: Stretch, now_ns: int) -> None:
    """Warn of one step that was too long, unless its endpoint has just done so."""
    suppressed = endpoint.warnings.admit(now_ns)
    if suppressed is None:
        return
    hold_ms = round(stretch.wall_ns / 1e6, 3)
    blocked_ms = round((stretch.slept_ns + stretch.fault_ns) / 1e6, 3)
    more = f" (and {suppressed} more since the last warning)" if suppressed else ""
    _logger.warning(
        "one step of %s %s held the event loop for %s ms%s%s: move blocking calls to a thread "
        "(asyncio.to_thread) or an async client, and long computations off the loop",
        endpoint.method,
        endpoint.route,
        hold_ms,
        _spent_for(stretch),
        more,
        extra={
            "method": endpoint.method,
            "endpoint": endpoint.route,
            "hold_ms": hold_ms,
            "blocked_ms": blocked_ms,
            "suppressed": suppressed,
        },
    )


def _spent_for(stretch: Stretch) -> str:
    shares = (
        ("blocked", stretch.slept_ns + stretch.fault_ns),
        ("computing", stretch.cpu_ns),
        ("waiting for a core", stretch.runqueue_ns),
        ("waiting for the interpreter lock", stretch.gil_ns),
    )
    known = [f"{ns / 1e6:.1f} ms {what}" for what, ns in shares if ns >= 50_000]
    return f" ({', '.join(known)})" if known else ""
