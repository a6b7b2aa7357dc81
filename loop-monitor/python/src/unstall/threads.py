"""The threads of the process, told apart by the names that their pools give them."""

import os
import re
import threading
from typing import TypedDict

_POOL_NAMES = re.compile(r"(asyncio_\d|ThreadPoolExecutor-\d+_\d|AnyIO worker thread)")
"""Names by asyncio's default executor, `concurrent.futures` and anyio (Starlette's pool)."""


class Threads(TypedDict):
    """Counts of now."""

    workers: int
    pool: int
    other: int


def count_threads(loops: int) -> Threads:
    """Count all threads of the process, those that no Python code has started too."""
    pool = sum(_POOL_NAMES.match(thread.name) is not None for thread in threading.enumerate())
    try:
        # A folder of procfs has one link per entry and two for itself.
        everything = os.stat("/proc/self/task").st_nlink - 2  # noqa: PTH116 - one call, no object
    except OSError:
        everything = threading.active_count()
    return Threads(workers=loops, pool=pool, other=max(everything - loops - pool, 0))
