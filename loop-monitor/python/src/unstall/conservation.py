"""The conservation law of a thread's time, as pure arithmetic: wall = CPU + run queue + waits.

A wait counts only when the kernel vouches for it: the thread gave up its core by itself (a
voluntary switch) or took a major fault. In Python a wait for the interpreter lock is a voluntary
switch too. It is told from a blocking call by what is true of every such wait:

- Another thread of this process computed meanwhile: who held the lock, or was given it.
- Who asks for the lock sleeps no longer than the switch interval (5 ms by default) at a time, so
  that each interval is one more voluntary switch; and who holds it computes, or waits for a core.
- Who is made to give it up sleeps until the other thread gets a core, however long that takes. But
  that happens only to a thread that had the lock for a whole switch interval.

Whatever may have been such a wait is charged to the lock, and the rest is blocked time. So a wait
for the lock isn't taken for a blocking call; beside threads that compute, a blocking call may be
taken for a wait for the lock, and blocked time is then a lower bound.
"""

from operator import add
from typing import NamedTuple

_HOLDERS_SHARE_MIN = 10
"""Who holds the lock is taken to have had at least a tenth of a core, however busy the machine."""

_OTHERS_CPU_NS_MIN = 5_000
"""No thread takes the lock and gives it back in less."""


class Stretch(NamedTuple):
    """What became of the wall time of one step, in nanoseconds."""

    wall_ns: int
    cpu_ns: int = 0
    runqueue_ns: int = 0
    slept_ns: int = 0
    fault_ns: int = 0
    gil_ns: int = 0

    def followed_by(self, later: "Stretch") -> "Stretch":
        """Add what came at once after it."""
        return Stretch(*map(add, self, later))


def clean(wall_ns: int, cpu_ns: int) -> Stretch:
    """Give the stretch of a step that didn't wait: most do, so no keyword is looked at."""
    return tuple.__new__(Stretch, (wall_ns, cpu_ns, 0, 0, 0, 0))


class Waits(NamedTuple):
    """Of the time off the core: what it was spent for, in nanoseconds."""

    runqueue_ns: int
    slept_ns: int
    fault_ns: int
    gil_ns: int


class Interval(NamedTuple):
    """What the kernel counted for a thread between two readings, times in nanoseconds."""

    cpu_ns: int
    off_core_ns: int
    """Wall time without CPU time."""
    run_delay_ns: int
    """Ready, and waiting for a core."""
    sleeps: int
    """Voluntary switches."""
    preemptions: int
    """Switches that it didn't want."""
    major_faults: int
    others_cpu_ns: int
    """CPU time of the process's other threads."""


def split(interval: Interval, lock_interval_ns: int) -> Waits:
    """Say what the time off the core was spent for.

    `lock_interval_ns` is how long a sleep for the interpreter lock can last; 0: there is no lock.
    """
    sleeps, major_faults = interval.sleeps, interval.major_faults
    if sleeps == 0 and major_faults == 0:
        # Preempted, or robbed of its core: it wanted to go on all the time.
        return Waits(interval.off_core_ns, 0, 0, 0)
    runqueue_ns = min(interval.run_delay_ns, interval.off_core_ns)
    wait_ns = interval.off_core_ns - runqueue_ns
    if major_faults and sleeps <= major_faults:
        # A fault that waits for the disk is also one voluntary switch.
        return Waits(runqueue_ns, 0, wait_ns, 0)
    gil_ns = min(wait_ns, _lock_wait_ns_max(interval, lock_interval_ns))
    return Waits(runqueue_ns, wait_ns - gil_ns, 0, gil_ns)


def _lock_wait_ns_max(interval: Interval, lock_interval_ns: int) -> int:
    if lock_interval_ns == 0 or interval.others_cpu_ns < _OTHERS_CPU_NS_MIN:
        return 0
    # Ready without a core, it still has the lock, if it was preempted.
    had_lock_ns_max = interval.cpu_ns + (interval.run_delay_ns if interval.preemptions else 0)
    if had_lock_ns_max >= lock_interval_ns:
        return interval.off_core_ns  # it may have been made to give it up
    asked_ns = (interval.sleeps - interval.major_faults) * lock_interval_ns
    return min(asked_ns, interval.others_cpu_ns * _HOLDERS_SHARE_MIN)
