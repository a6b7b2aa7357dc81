"""The wire form of the monitor: one JSON document, the same from Python and Rust.

`loop-monitor/schema/snapshot.schema.json` describes it, and a test holds this file against it.
What isn't measured is left out and not 0: here the runtime's own counters, blocked time outside of
requests, and in the mode `holds` all that the kernel would have to tell.
"""

from typing import Literal, TypedDict

from unstall.endpoints import Blocked, Endpoint
from unstall.stalls import THRESHOLD_NS, LongStep, Stalls
from unstall.threads import Threads

SNAPSHOT_PATH = "/__unstall/snapshot"
METRICS_PATH = "/__unstall/metrics"
STALLS_AFTER = "stalls_after"
"""In the query of the snapshot: the number after which long steps are told."""

SCHEMA_NAME = "unstall.snapshot"
SCHEMA_MAJOR = 1
SCHEMA_MINOR = 4


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


class PartCounters(TypedDict):
    """Counters of one part of a request."""

    polls: int
    hold_ns_sum: int


class SplitPartCounters(PartCounters, total=False):
    """With what the mode `holds` leaves out."""

    blocked_ns: int


class BlockedCounters(TypedDict):
    """Blocked time by class, and beside it the waits for the interpreter lock."""

    slept_ns: int
    fault_ns: int
    gil_ns: int
    shared_ns: int
    events: int
    events_over_200us: int
    ns_max: int


class HoldCounters(TypedDict):
    """Counters of one endpoint that every mode has; a poll is one step of a coroutine."""

    requests: int
    polls: int
    hold_ns_sum: int
    hold_ns_max: int
    request_hold_ns_max: int
    holds_over: HoldsOver
    hold: HistogramCounts
    parts: dict[str, SplitPartCounters]


class EndpointCounters(HoldCounters, total=False):
    """With what the mode `holds` leaves out."""

    cpu_ns: int
    runqueue_ns: int
    blocked: BlockedCounters


class Stall(TypedDict):
    """One long step."""

    number: int
    began_ns: int
    ended_ns: int
    endpoint: str
    part: str


class SplitStall(Stall, total=False):
    """With what the mode `holds` leaves out."""

    blocked_ns: int


class StallsTold(TypedDict):
    """Long steps one by one: how many there were, and the newest, or those asked for."""

    threshold_ns: int
    seen: int
    kept_max: int
    told: list[SplitStall]


class Snapshot(TypedDict):
    """Everything that the monitor knows at one moment."""

    schema: Schema
    start_id: str
    mono_ns: int
    runtime: str
    mode: Literal["full-split", "holds"]
    loops: int
    endpoints: dict[str, EndpointCounters]
    loop_lag: HistogramCounts | None
    counters: dict[str, int]
    stalls: StallsTold
    threads: Threads
    not_covered: list[str]


def schema() -> Schema:
    """Give the name and version that this file speaks."""
    return Schema(name=SCHEMA_NAME, major=SCHEMA_MAJOR, minor=SCHEMA_MINOR)


def counters(endpoint: Endpoint, *, is_split: bool) -> EndpointCounters:
    """Give the counters of one endpoint in wire form, `is_split` those of the kernel too."""
    counts = EndpointCounters(
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
        parts={
            name: SplitPartCounters(polls=part.polls, hold_ns_sum=part.hold_ns_sum)
            for name, part in endpoint.parts.items()
        },
    )
    if is_split:
        for name, part in endpoint.parts.items():
            counts["parts"][name]["blocked_ns"] = part.blocked_ns
        counts["cpu_ns"] = endpoint.cpu_ns
        counts["runqueue_ns"] = endpoint.runqueue_ns
        counts["blocked"] = _blocked(endpoint.blocked)
    return counts


def stalls_told(stalls: Stalls, after: int | None, *, is_split: bool) -> StallsTold:
    """Give the long steps after a number, or the newest few."""
    seen, steps = stalls.after(after)
    # One at a time into the form on the wire: there may be thousands, and the loop waits.
    told = [_stall(step, is_split=is_split) for step in steps]
    return StallsTold(threshold_ns=THRESHOLD_NS, seen=seen, kept_max=stalls.kept_max, told=told)


def _stall(step: LongStep, *, is_split: bool) -> SplitStall:
    stall = SplitStall(
        number=step.number,
        began_ns=step.began_ns,
        ended_ns=step.ended_ns,
        endpoint=step.endpoint,
        part=step.part,
    )
    if is_split:
        stall["blocked_ns"] = step.blocked_ns
    return stall


def _blocked(blocked: Blocked) -> BlockedCounters:
    return BlockedCounters(
        slept_ns=blocked.slept_ns,
        fault_ns=blocked.fault_ns,
        gil_ns=blocked.gil_ns,
        shared_ns=0,
        events=blocked.events,
        events_over_200us=blocked.events_over_200us,
        ns_max=blocked.ns_max,
    )
