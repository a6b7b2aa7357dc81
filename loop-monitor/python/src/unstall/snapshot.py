"""The wire form of the monitor: one JSON document, the same from Python and Rust.

`loop-monitor/schema/snapshot.schema.json` describes it, and a test holds this file against it.
Blocked time, CPU and the runtime's own counters are left out here: what can't be measured isn't 0.
"""

from typing import Literal, TypedDict

from unstall.endpoints import Endpoint
from unstall.threads import Threads

SNAPSHOT_PATH = "/__unstall/snapshot"
METRICS_PATH = "/__unstall/metrics"

SCHEMA_NAME = "unstall.snapshot"
SCHEMA_MAJOR = 1
SCHEMA_MINOR = 2


class Schema(TypedDict):
    """Name and version of the form."""

    name: str
    major: int
    minor: int


class HistogramCounts(TypedDict):
    """Counts by powers of two of microseconds, trailing zeros left out."""

    log2_us: list[int]


class HoldsOver(TypedDict):
    """Steps longer than 1, 10 and 100 ms."""

    ms_1: int
    ms_10: int
    ms_100: int


class EndpointCounters(TypedDict):
    """Counters of one endpoint; a poll is one step of a request's coroutine."""

    requests: int
    polls: int
    hold_ns_sum: int
    hold_ns_max: int
    request_hold_ns_max: int
    holds_over: HoldsOver
    hold: HistogramCounts


class Snapshot(TypedDict):
    """Everything that the monitor knows at one moment."""

    schema: Schema
    start_id: str
    mono_ns: int
    runtime: str
    mode: Literal["holds"]
    loops: int
    endpoints: dict[str, EndpointCounters]
    loop_lag: HistogramCounts | None
    threads: Threads
    not_covered: list[str]


def schema() -> Schema:
    """Give the name and version that this file speaks."""
    return Schema(name=SCHEMA_NAME, major=SCHEMA_MAJOR, minor=SCHEMA_MINOR)


def counters(endpoint: Endpoint) -> EndpointCounters:
    """Give the counters of one endpoint in wire form."""
    return EndpointCounters(
        requests=endpoint.requests,
        polls=endpoint.hold.count(),
        hold_ns_sum=endpoint.hold_ns_sum,
        hold_ns_max=endpoint.hold_ns_max,
        request_hold_ns_max=endpoint.request_hold_ns_max,
        holds_over=HoldsOver(
            ms_1=endpoint.over_1_ms,
            ms_10=endpoint.over_10_ms,
            ms_100=endpoint.over_100_ms,
        ),
        hold=HistogramCounts(log2_us=endpoint.hold.trimmed()),
    )
