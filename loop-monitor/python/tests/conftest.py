"""Fixtures: the clock that only moves when it is told to, in place of the one that steps use."""

import pytest
from asgi_client import Clock


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock()
    monkeypatch.setattr("unstall.readings.perf_counter_ns", clock)
    monkeypatch.setattr("unstall.account.monotonic_ns", clock)
    monkeypatch.setattr("unstall.lag.monotonic_ns", clock)
    return clock
