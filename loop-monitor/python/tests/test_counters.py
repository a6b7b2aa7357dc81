"""What a service counts by itself, in the snapshot beside what its loop did."""

import asyncio
import json
import os
from concurrent.futures import ThreadPoolExecutor

import pytest
from asgi_client import application, ask

from unstall import LoopMonitor


def quiet_monitor() -> LoopMonitor:
    return LoopMonitor(application(lambda: asyncio.sleep(0)))


def test_a_name_has_one_counter_and_is_told_from_its_making_on() -> None:
    monitor = quiet_monitor()
    assert monitor.snapshot()["counters"] == {}
    monitor.counter("streams_dropped").add(2)
    monitor.counter("streams_dropped").add()
    untouched = monitor.counter("sessions_lost")
    assert untouched.value == 0
    document = json.loads(ask(monitor, "/__unstall/snapshot").text)
    assert document["counters"] == {"sessions_lost": 0, "streams_dropped": 3}
    page = ask(monitor, "/__unstall/metrics").text
    assert 'unstall_service_count_total{counter="streams_dropped"} 3' in page


def test_a_counter_never_falls() -> None:
    with pytest.raises(ValueError, match="only grows"):
        quiet_monitor().counter("x").add(-1)


def test_no_addition_of_any_thread_is_lost() -> None:
    counter = quiet_monitor().counter("x")

    def add_many() -> None:
        for _ in range(10_000):
            counter.add()

    with ThreadPoolExecutor(4) as pool:
        for job in [pool.submit(add_many) for _ in range(4)]:
            job.result()
    assert counter.value == 40_000


def test_a_worker_that_was_forked_counts_from_0() -> None:
    monitor = quiet_monitor()
    counter = monitor.counter("x")
    counter.add(5)
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover
        try:
            counter.add(2)
            ask(monitor, "/x")
            os.write(writer, json.dumps(monitor.snapshot()["counters"]).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        assert json.loads(pipe.read()) == {"x": 2}
    os.waitpid(child, 0)
    assert monitor.snapshot()["counters"] == {"x": 5}
