"""What the kernel counts for the thread of a loop, read around each step.

No call here releases the interpreter lock: a monitor that did would make the loop wait for it. So
`/proc/thread-self/schedstat` is read through `ctypes.PyDLL`, which keeps the lock as `os.pread`
doesn't. Sources, from cheap to dear: the wall clock and the thread's CPU clock; the process's CPU
clock; `getrusage(RUSAGE_THREAD)` for switches and major faults; `run_delay`, the second field of
schedstat: nanoseconds spent ready but waiting for a core. The dear ones are read only if the thread
was off its core since they were read last.
"""

from __future__ import annotations

import functools
import os
import sys
import threading
import time
from time import perf_counter_ns, process_time_ns, thread_time_ns
from typing import TYPE_CHECKING, Any

from unstall.conservation import Interval, Stretch, clean, split

if TYPE_CHECKING:
    from unstall.steps import Steps

try:
    import ctypes
    from resource import RUSAGE_THREAD, getrusage
except ImportError:  # another system, or a Python that was built without them
    HAS_SOURCES = False
else:
    HAS_SOURCES = True

_SCHEDSTAT = "/proc/thread-self/schedstat"
_SCHEDSTAT_BYTES = 96
"""Three numbers of 64 bits and what parts them."""

_OFF_CORE_NS_MIN = 2_000
"""Leaving a core and coming back takes longer, so who was off for less wasn't off."""

_READING_NS_MAX = 30_000
"""A reading takes a few microseconds; from here on the thread has lost its core meanwhile. Then its
clocks would be from before a wait that `run_delay` has counted, which would hide blocked time."""
_ATTEMPTS = 3
"""Readings in a row that are disturbed are rare, and not worth more: the last one stands."""

_LOCK_INTERVAL_NS_SLACK = 200_000
"""By so much a sleep for the lock may outlast the switch interval: timers are served late."""

_CANARY_SLEEP_S = 0.001

_local = threading.local()


def meter_of_this_thread() -> ThreadMeter:
    """Give the meter of the calling thread, the same one in every call."""
    meter: ThreadMeter | None = getattr(_local, "meter", None)
    if meter is None or meter.pid != os.getpid():  # a forked child has other counters
        from unstall.proof import ProvingMeter, proof_memory  # noqa: PLC0415 - it needs ours

        memory = proof_memory()
        if memory is not None:
            meter = ProvingMeter(memory)
        else:
            meter = ThreadMeter() if why_not_split() else SplittingMeter()
        _local.meter = meter
    return meter


@functools.cache
def why_not_split() -> str | None:
    """Give the reason why only wall time can be measured here; `None` if more can.

    Asks the kernel once, with a sleep of 1 ms, whether its counters can be believed: some sandboxes
    emulate them, and a monitor that shows 0 there would be lying.
    """
    if os.environ.get("UNSTALL_PROVE") == "1":
        return "in proof mode calls are looked at, and not their times"
    if not HAS_SOURCES:
        return "this system doesn't count a thread's switches"
    try:
        meter = SplittingMeter()
    except OSError as error:
        return f"{_SCHEDSTAT} can't be read ({error})"
    for _ in range(_ATTEMPTS):
        meter.begin(None)
        time.sleep(_CANARY_SLEEP_S)
        seen = meter.end()
        if seen.slept_ns + seen.gil_ns >= _CANARY_SLEEP_S * 1e9 / 2:
            return None
    return "this kernel's counters miss a sleep, as those of some sandboxes do"


def has_interpreter_lock() -> bool:
    """Say whether threads take turns in this interpreter."""
    is_enabled = getattr(sys, "_is_gil_enabled", None)
    return is_enabled is None or bool(is_enabled())


class ThreadMeter:
    """The stopwatch of one thread, for one step at a time; this one knows wall time only."""

    __slots__ = ("_before_mark_began_ns", "_began_ns", "before_mark", "pid", "running", "thread")

    def __init__(self) -> None:
        self.pid = os.getpid()
        self.thread = threading.get_ident()
        self.running: Steps | None = None
        """Whose step is being measured: what runs inside of it is a part of it."""
        self.before_mark: Stretch | None = None
        """What the step was until its mark, if it has one; it goes on from there."""
        self._began_ns = 0
        self._before_mark_began_ns = 0

    def whole_began_ns(self) -> int:
        """Say when the step began that runs or ran last, its mark or not.

        By `perf_counter_ns`, which on Linux is the system's monotonic clock, as `monotonic_ns` is.
        """
        return self._began_ns if self.before_mark is None else self._before_mark_began_ns

    def begin(self, steps: Steps | None) -> None:
        """Begin a step; none may be running."""
        self.running = steps
        self.before_mark = None
        self._began_ns = perf_counter_ns()

    def mark(self) -> None:
        """Let what follows in the step that runs be told apart."""
        running, began_ns, before = self.running, self.whole_began_ns(), self.end()
        self.begin(running)
        self.before_mark = before
        self._before_mark_began_ns = began_ns

    def end(self) -> Stretch:
        """End the step that runs, and say what it was, from its mark on."""
        wall_ns = perf_counter_ns() - self._began_ns
        self.running = None
        return clean(wall_ns, 0)


class SplittingMeter(ThreadMeter):
    """Knows what the wall time was spent for. To be made by the thread that it measures."""

    __slots__ = (
        "_began_cpu_ns",
        "_major_faults",
        "_off_core_ns",
        "_process_cpu_ns",
        "_run_delay",
        "_schedstat",
        "_sleeps",
        "_switches",
    )

    def __init__(self) -> None:
        super().__init__()
        self._schedstat = _Schedstat()
        self._began_cpu_ns = 0
        self._process_cpu_ns = 0
        self._off_core_ns = -1 << 62
        """Wall minus CPU clock when the dear sources were read: it grows only off the core."""
        self._sleeps = 0
        self._major_faults = 0
        self._switches = -1
        self._run_delay = b""

    def begin(self, steps: Steps | None) -> None:
        self.running = steps
        self.before_mark = None
        cpu_ns = thread_time_ns()
        wall_ns = perf_counter_ns()
        if wall_ns - cpu_ns - self._off_core_ns >= _OFF_CORE_NS_MIN:
            for _ in range(_ATTEMPTS):
                self._read_switches()
                cpu_ns = thread_time_ns()
                self._process_cpu_ns = process_time_ns()
                asked_ns, wall_ns = wall_ns, perf_counter_ns()
                if wall_ns - asked_ns < _READING_NS_MAX:
                    break
            self._off_core_ns = wall_ns - cpu_ns
        else:
            self._process_cpu_ns = process_time_ns()
        self._began_cpu_ns = cpu_ns
        self._began_ns = wall_ns

    def end(self) -> Stretch:
        now_ns = perf_counter_ns()
        now_cpu_ns = thread_time_ns()
        self.running = None
        wall_ns = now_ns - self._began_ns
        cpu_ns = now_cpu_ns - self._began_cpu_ns
        if wall_ns - cpu_ns < _OFF_CORE_NS_MIN:
            return clean(wall_ns, cpu_ns)
        sleeps, switches = self._sleeps, self._switches
        faults, run_delay = self._major_faults, self._run_delay
        for _ in range(_ATTEMPTS):
            # Read first and last, so that CPU of this thread is never taken for that of others.
            process_ns = process_time_ns() - self._process_cpu_ns
            others_cpu_ns = process_ns - (thread_time_ns() - self._began_cpu_ns)
            self._read_switches()
            read_ns = perf_counter_ns()
            if read_ns - now_ns < _READING_NS_MAX:
                break
            now_ns, now_cpu_ns = read_ns, thread_time_ns()
        self._off_core_ns = now_ns - now_cpu_ns
        wall_ns, cpu_ns = now_ns - self._began_ns, now_cpu_ns - self._began_cpu_ns
        interval = Interval(
            cpu_ns=cpu_ns,
            off_core_ns=wall_ns - cpu_ns,
            run_delay_ns=_run_delay_ns(self._run_delay) - _run_delay_ns(run_delay),
            sleeps=self._sleeps - sleeps,
            preemptions=self._switches - switches - (self._sleeps - sleeps),
            major_faults=self._major_faults - faults,
            others_cpu_ns=others_cpu_ns,
        )
        waits = split(interval, _lock_interval_ns())
        return Stretch(wall_ns, cpu_ns, *waits)

    def _read_switches(self) -> None:
        usage = getrusage(RUSAGE_THREAD)
        self._sleeps = usage.ru_nvcsw
        self._major_faults = usage.ru_majflt
        switches = usage.ru_nvcsw + usage.ru_nivcsw
        if switches != self._switches:
            # Without a switch there was no wait for a core.
            self._run_delay = self._schedstat.read()
            self._switches = switches


class _Schedstat:
    """The file of the thread that opened it, read without giving the interpreter lock away."""

    __slots__ = ("_arguments", "_buffer", "_descriptor", "_pread")

    def __init__(self) -> None:
        self._descriptor = os.open(_SCHEDSTAT, os.O_RDONLY | os.O_CLOEXEC)
        self._buffer = ctypes.create_string_buffer(_SCHEDSTAT_BYTES)
        # Made once: to convert them takes longer than the call.
        self._arguments: tuple[Any, ...] = (
            ctypes.c_int(self._descriptor),
            ctypes.c_void_p(ctypes.addressof(self._buffer)),
            ctypes.c_size_t(_SCHEDSTAT_BYTES - 1),
            ctypes.c_long(0),
        )
        self._pread: Any = ctypes.PyDLL(None).pread
        if len(self.read().split()) != 3:
            message = "not the three numbers that are expected"
            raise OSError(message)

    def __del__(self) -> None:
        descriptor = getattr(self, "_descriptor", None)
        if descriptor is not None:
            os.close(descriptor)

    def read(self) -> bytes:
        """Give its text. A read that fails leaves the text of the one before: nothing grew."""
        self._pread(*self._arguments)
        return self._buffer.value


def _run_delay_ns(schedstat: bytes) -> int:
    # Nothing was read yet, if no step has begun.
    return int(schedstat.split(None, 2)[1]) if schedstat else 0


def _lock_interval_ns() -> int:
    if not has_interpreter_lock():
        return 0
    return round(sys.getswitchinterval() * 1e9) + _LOCK_INTERVAL_NS_SLACK
