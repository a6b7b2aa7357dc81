"""Unstall for Python services: an ASGI middleware that shows what holds the event loop.

    from unstall import LoopMonitor

    app.add_middleware(LoopMonitor)      # Starlette, FastAPI
    app = LoopMonitor(app)               # any ASGI application

The command `unstall`, which comes in the same wheel, finds the monitor by itself.
"""

from unstall.counters import Counter
from unstall.monitor import LoopMonitor
from unstall.snapshot import Snapshot

__all__ = ["Counter", "LoopMonitor", "Snapshot"]
