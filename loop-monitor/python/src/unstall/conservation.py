"""The conservation law of a thread's time, as pure arithmetic: wall = CPU + run queue + waits.

A wait counts only when the kernel vouches for it: the thread gave up its core by itself (a voluntary
switch) or took a major fault. In Python a wait for the interpreter lock is a voluntary switch too.
It is told from a blocking call by two bounds that every such wait keeps:

- It lasts no longer than the switch interval, 5 ms by default: then the waiting thread wakes, asks for
  the lock and sleeps anew, which is one more voluntary switch.
- Meanwhile another thread of this process holds the lock, so it computes or waits for a core.

The smaller of the two is charged to the lock, the rest is blocked time: so a wait for the lock is not
taken for a blocking call, and a short blocking call beside threads that compute may be taken for a
wait for the lock. Blocked time is then a lower bound.
"""

from typing import NamedTuple

HOLDER_SHARE_MIN = 4
"""Who holds the lock is taken to have had at least a quarter of a core, however busy the machine."""


class Stretch(NamedTuple):
    """What became of the wall time of one step, in nanoseconds."""

    wall_ns: int
    cpu_ns: int = 0
    runqueue_ns: int = 0
    slept_ns: int = 0
    fault_ns: int = 0
    gil_ns: int = 0

    def last(self, wall_ns: int, cpu_ns: int) -> "Stretch":
        """Give its end, of which only wall and CPU time are known: waits were alike all along."""
        off_core_ns = max(self.wall_ns - self.cpu_ns, 1)
        share = min(max(wall_ns - cpu_ns, 0) / off_core_ns, 1.0)
        return Stretch(wall_ns, cpu_ns, *(round(wait_ns * share) for wait_ns in self[2:]))


def clean(wall_ns: int, cpu_ns: int) -> Stretch:
    """Give the stretch of a step that didn't wait: most do, so no keyword is looked at."""
    return tuple.__new__(Stretch, (wall_ns, cpu_ns, 0, 0, 0, 0))


class Waits(NamedTuple):
    """Of the time off the core: what it was spent for, in nanoseconds."""

    runqueue_ns: int
    slept_ns: int
    fault_ns: int
    gil_ns: int


def split(  # noqa: PLR0913 - six readings of the kernel
    off_core_ns: int,
    *,
    run_delay_ns: int,
    sleeps: int,
    major_faults: int,
    others_cpu_ns: int,
    lock_wait_ns_max: int,
) -> Waits:
    """Say what the time off the core was spent for.

    `run_delay_ns` is the kernel's count of waiting for a core, `others_cpu_ns` the CPU time of the
    process's other threads meanwhile. `lock_wait_ns_max` is the longest single sleep in a wait for
    the interpreter lock, and 0 where there is none.
    """
    if sleeps == 0 and major_faults == 0:
        # Preempted, or robbed of its core: it wanted to go on all the time.
        return Waits(off_core_ns, 0, 0, 0)
    runqueue_ns = min(run_delay_ns, off_core_ns)
    wait_ns = off_core_ns - runqueue_ns
    if major_faults and sleeps <= major_faults:
        # A fault that waits for the disk is also one voluntary switch.
        return Waits(runqueue_ns, 0, wait_ns, 0)
    gil_ns = min(
        wait_ns,
        (sleeps - major_faults) * lock_wait_ns_max,
        max(others_cpu_ns, 0) * HOLDER_SHARE_MIN,
    )
    return Waits(runqueue_ns, wait_ns - gil_ns, 0, gil_ns)
