"""A snapshot in Prometheus' text format 0.0.4, with the names that the monitor for Tokio uses."""

from collections.abc import Callable, Iterator

from unstall.snapshot import EndpointCounters, HistogramCounts, Snapshot

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_BUCKET_BOUNDS_US = [2 << bucket for bucket in range(24)]
"""2 µs to 16.8 s: always the same, so that histograms of several processes can be added."""


def render(snapshot: Snapshot) -> str:
    """Render every counter of a snapshot."""
    lines = [*_requests(snapshot), *_holds(snapshot), *_parts(snapshot)]
    if snapshot["mode"] != "holds":
        lines += _blocked(snapshot)
    lines += [*_counters(snapshot), *_process(snapshot)]
    return "\n".join(lines) + "\n"


def _requests(snapshot: Snapshot) -> Iterator[str]:
    yield from _family("unstall_requests_total", "counter", "Requests begun.")
    yield from _per_endpoint(snapshot, "unstall_requests_total", lambda seen: seen["requests"])
    yield from _family("unstall_polls_total", "counter", "Steps of the requests' tasks.")
    yield from _per_endpoint(snapshot, "unstall_polls_total", lambda seen: seen["polls"])


def _holds(snapshot: Snapshot) -> Iterator[str]:
    name = "unstall_hold_seconds"
    about = "Wall time of a step, in which its loop did nothing else."
    yield from _family(name, "histogram", about)
    for key, seen in snapshot["endpoints"].items():
        yield from _histogram(name, _labels_of(key), seen["hold"], seen["hold_ns_sum"])
    name = "unstall_request_hold_seconds_max"
    about = "Largest sum of one request's steps since the process started."
    yield from _family(name, "gauge", about)
    yield from _per_endpoint(snapshot, name, lambda seen: seen["request_hold_ns_max"] / 1e9)
    name = "unstall_holds_over_total"
    yield from _family(name, "counter", "Steps longer than 1, 10 and 100 ms.")
    for key, seen in snapshot["endpoints"].items():
        over = seen["holds_over"]
        levels = (("0.001", over["ms_1"]), ("0.01", over["ms_10"]), ("0.1", over["ms_100"]))
        for level, count in levels:
            yield _sample(name, [*_labels_of(key), ("over", level)], count)


def _parts(snapshot: Snapshot) -> Iterator[str]:
    name = "unstall_part_hold_seconds_total"
    about = "Wall time of steps by part of the request: handler, body, child tasks, or after it."
    yield from _family(name, "counter", about)
    for key, seen in snapshot["endpoints"].items():
        for part, counters in seen["parts"].items():
            yield _sample(name, [*_labels_of(key), ("part", part)], counters["hold_ns_sum"] / 1e9)


def _blocked(snapshot: Snapshot) -> Iterator[str]:
    """Render what the mode `holds` leaves out."""
    endpoints = snapshot["endpoints"].items()
    name = "unstall_blocked_seconds_total"
    about = "Time a step kept the loop waiting, by class: slept (gave up its core) or fault."
    yield from _family(name, "counter", about)
    for key, seen in endpoints:
        blocked = seen["blocked"]
        for kind, ns in (("slept", blocked["slept_ns"]), ("fault", blocked["fault_ns"])):
            yield _sample(name, [*_labels_of(key), ("class", kind)], ns / 1e9)
    name = "unstall_blocked_polls_total"
    yield from _family(name, "counter", "Steps that were blocked for at least 200 microseconds.")
    for key, seen in endpoints:
        yield _sample(name, _labels_of(key), seen["blocked"]["events_over_200us"])
    name = "unstall_part_blocked_seconds_total"
    yield from _family(name, "counter", "Time that steps kept the loop waiting, by part.")
    for key, seen in endpoints:
        for part, counters in seen["parts"].items():
            yield _sample(name, [*_labels_of(key), ("part", part)], counters["blocked_ns"] / 1e9)
    name = "unstall_gil_wait_seconds_total"
    about = "Time that may have been spent waiting for the interpreter lock; never blocked time."
    yield from _family(name, "counter", about)
    for key, seen in endpoints:
        yield _sample(name, _labels_of(key), seen["blocked"]["gil_ns"] / 1e9)


def _counters(snapshot: Snapshot) -> Iterator[str]:
    name = "unstall_service_count_total"
    yield from _family(name, "counter", "What the service counts by itself.")
    for counter, value in snapshot["counters"].items():
        yield _sample(name, [("counter", counter)], value)


def _process(snapshot: Snapshot) -> Iterator[str]:
    yield from _family("unstall_threads", "gauge", "Threads of the process.")
    threads = snapshot["threads"]
    kinds = (
        ("worker", threads["workers"]),
        ("pool", threads["pool"]),
        ("other", threads["other"]),
    )
    for kind, count in kinds:
        yield _sample("unstall_threads", [("kind", kind)], count)
    lag = snapshot["loop_lag"]
    if lag is not None:
        name = "unstall_loop_lag_seconds"
        about = "Delay of a timer beyond its due time; the sum is a lower bound."
        yield from _family(name, "histogram", about)
        # Bucket 0 begins at 0.
        floor_us = sum((count << bucket) for bucket, count in enumerate(lag["log2_us"]) if bucket)
        yield from _histogram(name, [], lag, floor_us * 1_000)


_Labels = list[tuple[str, str]]


def _family(name: str, kind: str, about: str) -> Iterator[str]:
    yield f"# HELP {name} {about}"
    yield f"# TYPE {name} {kind}"


def _per_endpoint(
    snapshot: Snapshot, name: str, value: Callable[[EndpointCounters], float]
) -> Iterator[str]:
    for key, seen in snapshot["endpoints"].items():
        yield _sample(name, _labels_of(key), value(seen))


def _histogram(name: str, labels: _Labels, counts: HistogramCounts, sum_ns: int) -> Iterator[str]:
    below = 0
    log2_us = counts["log2_us"]
    for bucket, bound_us in enumerate(_BUCKET_BOUNDS_US):
        below += log2_us[bucket] if bucket < len(log2_us) else 0
        # Never with an exponent: a label is compared as text with those of other processes.
        yield _sample(f"{name}_bucket", [*labels, ("le", f"{bound_us / 1e6:.6f}")], below)
    total = sum(log2_us)
    yield _sample(f"{name}_bucket", [*labels, ("le", "+Inf")], total)
    yield _sample(f"{name}_sum", labels, sum_ns / 1e9)
    yield _sample(f"{name}_count", labels, total)


def _labels_of(key: str) -> _Labels:
    # A route may hold spaces, a method can't.
    method, _, route = key.partition(" ")
    return [("method", method), ("route", route)]


def _sample(name: str, labels: _Labels, value: float) -> str:
    text = ",".join(f'{label}="{_escaped(content)}"' for label, content in labels)
    return f"{name}{{{text}}} {value}" if labels else f"{name} {value}"


def _escaped(content: str) -> str:
    return content.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
