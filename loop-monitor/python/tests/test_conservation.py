"""The law of a thread's time: what may have been a wait for the interpreter lock isn't blocked."""

import dataclasses
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from unstall.conservation import Interval, Stretch, split
from unstall.readings import (
    HAS_SOURCES,
    SplittingMeter,
    has_interpreter_lock,
    meter_of_this_thread,
    why_not_split,
)

MS = 1_000_000
LOCK = 5 * MS


def interval(**more: int) -> Interval:
    nothing = dict.fromkeys(Interval._fields, 0)
    return Interval(**(nothing | more))


def test_a_preempted_computation_is_not_blocked() -> None:
    robbed = interval(cpu_ns=20 * MS, off_core_ns=30 * MS, run_delay_ns=25 * MS, preemptions=4)
    assert split(robbed, LOCK) == (30 * MS, 0, 0, 0)


def test_a_sleep_leaves_out_the_wait_for_a_core() -> None:
    slept = interval(off_core_ns=17 * MS, run_delay_ns=12 * MS, sleeps=1)
    assert split(slept, LOCK) == (12 * MS, 5 * MS, 0, 0)


def test_a_fault_is_the_whole_story_only_without_further_switches() -> None:
    fault = interval(off_core_ns=2 * MS, sleeps=2, major_faults=2)
    assert split(fault, LOCK) == (0, 0, 2 * MS, 0)
    assert split(fault._replace(sleeps=3), LOCK) == (0, 2 * MS, 0, 0)


def test_who_asks_for_the_lock_wakes_every_interval() -> None:
    asks = interval(off_core_ns=10 * MS, sleeps=2, others_cpu_ns=9 * MS)
    assert split(asks, LOCK) == (0, 0, 0, 10 * MS)
    # One sleep of 120 ms was no wait for the lock, whatever others did meanwhile.
    sleeps = asks._replace(off_core_ns=125 * MS, others_cpu_ns=125 * MS)
    assert split(sleeps, LOCK) == (0, 115 * MS, 0, 10 * MS)


def test_who_holds_the_lock_computes() -> None:
    waits = interval(off_core_ns=2 * MS, sleeps=1)
    for others_us, gil_us in ((0, 0), (4, 0), (20, 200), (199, 1_990), (300, 2_000)):
        of_lock = split(waits._replace(others_cpu_ns=others_us * 1_000), LOCK)
        assert of_lock.gil_ns == gil_us * 1_000
        assert of_lock.slept_ns == (2_000 - gil_us) * 1_000


def test_who_gives_the_lock_up_waits_until_the_other_has_a_core() -> None:
    """However long, and however short the other computes then: seen under load."""
    gave_up = interval(cpu_ns=40 * MS, off_core_ns=60 * MS, sleeps=1, others_cpu_ns=20_000)
    assert split(gave_up, LOCK) == (0, 0, 0, 60 * MS)
    # Nobody is made to before a switch interval; a preempted thread still has the lock.
    short = gave_up._replace(cpu_ns=MS)
    assert split(short, LOCK).slept_ns == 59_800_000
    held = short._replace(run_delay_ns=6 * MS)
    assert split(held, LOCK).slept_ns == 53_800_000
    assert split(held._replace(preemptions=1), LOCK).slept_ns == 0


def test_without_a_lock_nothing_waits_for_it() -> None:
    waits = interval(cpu_ns=40 * MS, off_core_ns=10 * MS, sleeps=2, others_cpu_ns=90 * MS)
    assert split(waits, 0) == (0, 10 * MS, 0, 0)


needs_kernel = pytest.mark.skipif(
    not HAS_SOURCES or why_not_split() is not None, reason="this kernel's counters can't be used"
)


@dataclasses.dataclass
class Beside:
    """A thread that works beside, until it is told to end."""

    work: Callable[[], object]
    is_over: bool = False

    def run(self) -> None:
        while not self.is_over:
            self.work()


@contextmanager
def beside(work: Callable[[], object]) -> Iterator[None]:
    worker = Beside(work)
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        yield
    finally:
        worker.is_over = True
        thread.join()


def measured(work: Callable[[], object]) -> Stretch:
    meter = SplittingMeter()
    meter.begin(None)
    work()
    return meter.end()


def spin(cpu_ms: int) -> None:
    end = time.thread_time_ns() + cpu_ms * MS
    while time.thread_time_ns() < end:
        pass


def compute() -> None:
    sum(range(1_000))


@needs_kernel
@pytest.mark.parametrize("ms", [0.25, 1, 20])
def test_a_sleep_is_found_and_is_not_longer_than_it_was(ms: float) -> None:
    whole = 0
    for _ in range(20):
        seen = measured(lambda: time.sleep(ms / 1e3))
        assert seen.slept_ns <= seen.wall_ns
        # A thread of an earlier test that is joined may still be ending, which takes CPU; beside it
        # a sleep may have been a wait for the lock, and counts as one.
        assert ms * MS * 0.9 <= seen.slept_ns + seen.gil_ns + seen.runqueue_ns
        whole += seen.slept_ns >= ms * MS * 0.9
    assert whole >= 1


@needs_kernel
def test_a_computation_is_not_blocked_whatever_the_machine_does() -> None:
    for _ in range(5):
        seen = measured(lambda: spin(10))
        assert (seen.slept_ns, seen.gil_ns) == (0, 0)
        assert seen.cpu_ns >= 10 * MS


@needs_kernel
@pytest.mark.skipif(not has_interpreter_lock(), reason="this build has no interpreter lock")
def test_waits_for_the_lock_are_not_blocked() -> None:
    with beside(compute):
        for _ in range(3):
            seen = measured(lambda: spin(20))
            assert seen.slept_ns == 0
            assert seen.gil_ns > 0


@needs_kernel
def test_a_long_blocking_call_is_found_beside_a_thread_that_computes() -> None:
    with beside(compute):
        found = [measured(lambda: time.sleep(0.15)).slept_ns for _ in range(5)]
    # A step that is preempted with the lock for 5 ms can't tell; not all five are.
    assert max(found) >= 100 * MS


@needs_kernel
def test_a_blocking_call_is_found_beside_threads_that_wait() -> None:
    gate = threading.Event()
    with beside(lambda: time.sleep(0.01)):
        idle = [threading.Thread(target=gate.wait) for _ in range(20)]
        for thread in idle:
            thread.start()
        found = [measured(lambda: time.sleep(0.005)).slept_ns for _ in range(9)]
        gate.set()
        for thread in idle:
            thread.join()
    assert max(found) >= 4 * MS


def test_a_thread_keeps_its_meter_and_others_have_their_own() -> None:
    meters: list[Any] = [meter_of_this_thread(), meter_of_this_thread()]
    other = threading.Thread(target=lambda: meters.append(meter_of_this_thread()))
    other.start()
    other.join()
    assert meters[0] is meters[1] is not meters[2]


def test_the_build_says_whether_it_has_the_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "_is_gil_enabled", lambda: False, raising=False)
    assert not has_interpreter_lock()
