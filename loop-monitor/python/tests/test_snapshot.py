"""The wire form: valid by the schema that the monitor for Tokio ships, and of its version."""

import asyncio
import json
import os
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from asgi_client import Clock, application, ask, request

from unstall import LoopMonitor, snapshot
from unstall.threads import count_threads

MONITOR = Path(__file__).parents[2]


def rust_text(path: str) -> str:
    return (MONITOR / path).read_text(encoding="utf-8")


@pytest.fixture
def used(clock: Clock) -> LoopMonitor:
    async def handler() -> None:
        clock.advance_ms(3)
        await asyncio.sleep(0)
        clock.advance_ms(60)
        await asyncio.sleep(0.06)

    monitor = LoopMonitor(application(handler, '/odd "route" \\{x}'))
    ask(monitor, "/x")
    return monitor


def test_the_schema_accepts_it(used: LoopMonitor) -> None:
    schema = json.loads(rust_text("schema/snapshot.schema.json"))
    validator = jsonschema.Draft202012Validator(schema)
    fresh = LoopMonitor(application(lambda: asyncio.sleep(0)))
    for monitor in (used, fresh):
        document: dict[str, Any] = json.loads(ask(monitor, "/__unstall/snapshot").text)
        assert list(validator.iter_errors(document)) == []
        # Every field is known to the schema: a reader would not miss what it never sees.
        assert set(document) <= set(schema["properties"])
        assert set(document["stalls"]) == set(schema["$defs"]["Stalls"]["properties"])
        for stall in document["stalls"]["told"]:
            assert set(stall) == set(schema["$defs"]["Stall"]["properties"]) - {"line"}
        for endpoint in document["endpoints"].values():
            assert set(endpoint) <= set(schema["$defs"]["Endpoint"]["properties"])
            known = schema["$defs"]
            assert set(endpoint["parts"]) == set(known["Parts"]["properties"])
            for part in endpoint["parts"].values():
                assert set(part) == set(known["Part"]["properties"])
            assert set(endpoint["blocked"]) == set(known["Blocked"]["properties"])
            assert document["mode"] == "full-split"
    assert not validator.is_valid({**document, "mode": "guess"})


def test_the_version_paths_and_refusal_are_the_other_monitors() -> None:
    wire = rust_text("src/wire.rs")

    def constant(name: str) -> str:
        found = re.search(rf'{name}: [&a-z0-9]+ = "?([^";]+)"?;', wire)
        assert found is not None, name
        return found[1]

    assert constant("SNAPSHOT_PATH") == snapshot.SNAPSHOT_PATH
    assert constant("METRICS_PATH") == snapshot.METRICS_PATH
    assert constant("SCHEMA_NAME") == snapshot.SCHEMA_NAME
    assert int(constant("SCHEMA_MAJOR")) == snapshot.SCHEMA_MAJOR
    assert int(constant("SCHEMA_MINOR")) == snapshot.SCHEMA_MINOR
    answer = ask(
        LoopMonitor(application(lambda: asyncio.sleep(0))), "/__unstall/snapshot", client=None
    )
    assert answer.text.startswith(constant("REFUSAL_PREFIX"))


def test_the_metrics_are_named_as_the_other_monitors(used: LoopMonitor) -> None:
    [page] = (MONITOR / "src/snapshots").glob("*the_page_reads_as_shown.snap")
    theirs = set(re.findall(r"^# TYPE (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE))
    text = ask(used, "/__unstall/metrics").text
    ours = re.findall(r"^# TYPE (.+)$", text, re.MULTILINE)
    assert len(ours) == len(set(ours)) == 13
    assert set(ours) - theirs == {"unstall_gil_wait_seconds_total counter"}
    bounds = re.findall(r'le="([^"]+)"', page.read_text(encoding="utf-8"))
    assert set(re.findall(r'le="([^"]+)"', text)) == set(bounds)


def test_what_this_kernel_does_not_count_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("monitor", "readings"):
        monkeypatch.setattr(f"unstall.{module}.why_not_split", lambda: "this kernel is a toy")
    monkeypatch.setattr("unstall.readings._local", threading.local())
    monitor = LoopMonitor(application(lambda: asyncio.sleep(0)))
    ask(monitor, "/x")
    text = ask(monitor, "/__unstall/snapshot").text
    document = json.loads(text)
    assert document["mode"] == "holds"
    assert document["endpoints"]["GET /x"]["polls"] == 2
    assert not {"blocked", "cpu_ns", "runqueue_ns"} & set(document["endpoints"]["GET /x"])
    assert "blocked_ns" not in text
    assert any("this kernel is a toy" in sentence for sentence in document["not_covered"])
    schema = json.loads(rust_text("schema/snapshot.schema.json"))
    assert jsonschema.Draft202012Validator(schema).is_valid(document)
    assert "unstall_blocked" not in ask(monitor, "/__unstall/metrics").text


def test_the_metrics_keep_to_the_format(used: LoopMonitor) -> None:
    text = ask(used, "/__unstall/metrics").text
    assert text.endswith("\n")
    label = r'[a-z_]+="(?:[^"\\\n]|\\["\\n])*"'
    sample = re.compile(rf"[a-z_]+(?:\{{{label}(?:,{label})*\}})? [0-9.e+-]+")
    for line in text.splitlines():
        assert line.startswith("# ") or sample.fullmatch(line), line
    labels = r'method="GET",route="/odd \"route\" \\{x}"'
    assert f"unstall_requests_total{{{labels}}} 1" in text
    assert f"unstall_hold_seconds_sum{{{labels}}} 0.063" in text
    assert f'unstall_holds_over_total{{{labels},over="0.01"}} 1' in text
    assert f'unstall_hold_seconds_bucket{{{labels},le="+Inf"}} 3' in text


def test_snapshots_of_one_start_share_its_id_and_monitors_do_not() -> None:
    one = LoopMonitor(application(lambda: asyncio.sleep(0)))
    two = LoopMonitor(application(lambda: asyncio.sleep(0)))
    first, second = one.snapshot(), one.snapshot()
    assert first["start_id"] == second["start_id"] != two.snapshot()["start_id"]
    assert 0 < first["mono_ns"] <= second["mono_ns"]


def test_a_worker_that_was_forked_is_a_start_of_its_own() -> None:
    """As `gunicorn --preload` does it: the application is loaded, then the workers are forked."""
    monitor = LoopMonitor(application(lambda: asyncio.sleep(0)))
    ask(monitor, "/x")
    parents = monitor.snapshot()
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:  # pragma: no cover
        try:
            ask(monitor, "/x")
            os.write(writer, json.dumps(monitor.snapshot()).encode())
        finally:
            os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        childs = json.loads(pipe.read())
    os.waitpid(child, 0)
    assert childs["start_id"] != parents["start_id"]
    assert childs["endpoints"]["GET /x"]["requests"] == 1
    assert monitor.snapshot()["start_id"] == parents["start_id"]


def test_threads_are_told_apart_by_their_pools() -> None:
    before = count_threads(loops=1)
    gate = threading.Event()

    async def main() -> tuple[int, int]:
        loop = asyncio.get_running_loop()
        waiting = [loop.run_in_executor(None, gate.wait)]
        with ThreadPoolExecutor(2) as pool:
            waiting += [loop.run_in_executor(pool, gate.wait) for _ in range(2)]
            other = threading.Thread(target=gate.wait, name="mine")
            other.start()
            seen = count_threads(loops=1)
            gate.set()
            await asyncio.gather(*waiting)
        other.join()
        return seen["pool"] - before["pool"], seen["other"] - before["other"]

    assert asyncio.run(main()) == (3, 1)


def test_endpoints_are_listed_in_order_and_the_monitors_own_are_not() -> None:
    monitor = LoopMonitor(application(lambda: asyncio.sleep(0)))

    async def main() -> None:
        for method in ("POST", "GET", "DELETE"):
            await request(monitor, "/x", method)
        await request(monitor, "/__unstall/metrics")

    asyncio.run(main())
    assert list(monitor.snapshot()["endpoints"]) == ["DELETE /x", "GET /x", "POST /x"]
