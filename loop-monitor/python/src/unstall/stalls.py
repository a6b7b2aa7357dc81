"""Long steps with their times, the newest of them: who reads them can tell whom each kept waiting.

A ring of plain numbers, made once: only steps above the threshold write it, and nothing grows.
"""

from __future__ import annotations

import threading
from array import array
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

    from unstall.conservation import Stretch

THRESHOLD_NS = 1_000_000
"""Shorter steps aren't kept: those that are counted as longer than 1 ms are."""

KEPT_MAX = 16_384
"""A loop that does nothing but stall fills them in 16 s at least; 512 KiB."""

NEWEST = 64
"""Told to who doesn't say from which one on."""

_WORDS = 4
"""Begin, length, blocked time, and the number of who it was."""


class LongStep(NamedTuple):
    """One step that was long."""

    number: int
    began_ns: int
    ended_ns: int
    endpoint: str
    part: str
    blocked_ns: int


class Stalls:
    """The newest long steps of one process. The number of all that there were only grows."""

    def __init__(self, kept_max: int = KEPT_MAX) -> None:
        self.kept_max = kept_max
        self.seen = 0
        self._ring = array("Q", bytes(8 * _WORDS * kept_max))
        self._names: dict[tuple[str, str], int] = {}
        # Who reads holds it for less than a millisecond; only steps that took longer wait for it.
        # Making the pair of names may collect garbage, and with it end a dropped request's step,
        # which comes here again on the same thread.
        self._lock = threading.RLock()

    def note(self, endpoint: str, part: str, began_ns: int, stretch: Stretch) -> None:
        """Keep a step. Names of endpoints are bounded, and so are the numbers given to them."""
        with self._lock:
            number = self._names.setdefault((endpoint, part), len(self._names))
            # From here on nothing is made that could collect.
            at = self.seen % self.kept_max * _WORDS
            ring = self._ring
            ring[at] = began_ns
            ring[at + 1] = stretch.wall_ns
            ring[at + 2] = min(max(0, stretch.slept_ns + stretch.fault_ns), stretch.wall_ns)
            ring[at + 3] = number
            self.seen += 1

    def after(self, number: int | None) -> tuple[int, Iterator[LongStep]]:
        """Give how many there were, and those kept after a number; `None`: the last few."""
        with self._lock:
            seen, ring, names = self.seen, self._ring[:], list(self._names)
        first = seen - NEWEST if number is None else number
        first = max(first, seen - self.kept_max, 0)
        return seen, (self._read(ring, names, before) for before in range(first, seen))

    def _read(self, ring: array[int], names: list[tuple[str, str]], before: int) -> LongStep:
        at = before % self.kept_max * _WORDS
        began_ns, wall_ns, blocked_ns, number = ring[at : at + _WORDS]
        return LongStep(before + 1, began_ns, began_ns + wall_ns, *names[number], blocked_ns)
