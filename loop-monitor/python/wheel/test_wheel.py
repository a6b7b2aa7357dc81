"""The wheel, installed into a clean environment on a path without Rust: both doors open.

Needs UNSTALL_WHEEL, the wheel's path: `./dev test` builds one and sets it.
"""

import json
from pathlib import Path
from typing import Any

from installation import HERE, Installation


def record_of(installed: Installation, name: str) -> dict[str, Any]:
    record: dict[str, Any] = json.loads((installed.folder / name).read_text(encoding="utf-8"))
    return record


def test_the_command_is_there(installed: Installation) -> None:
    said = installed.run("unstall", "--version").stdout
    assert said.startswith("unstall ")
    listed = installed.run("unstall", "scenarios", "list").stdout
    assert "usage-check" in listed


def test_the_package_is_there_with_its_types_and_depends_on_nothing(
    installed: Installation,
) -> None:
    python = str(installed.bin / "python")
    code = "import unstall, pathlib; print(pathlib.Path(unstall.__file__).parent)"
    folder = Path(installed.run(python, "-c", code).stdout.strip())
    assert folder.is_relative_to(installed.folder)
    assert (folder / "py.typed").is_file()
    code = "import importlib.metadata as m; print(m.requires('unstall'), m.version('unstall'))"
    requires, version = installed.run(python, "-c", code).stdout.split()
    assert requires == "None"
    assert installed.run("unstall", "--version").stdout.split()[1].startswith(version)


def test_the_first_number_comes_with_what_held_the_loop(installed: Installation) -> None:
    scenario = str(HERE / "scenario.toml")
    with installed.uvicorn("blocking") as url:
        command = ["unstall", "run", scenario, "--target", url, "--requests", "60"]
        done = installed.run(*command, "--out", "run.json", "--json")
    assert json.loads(done.stdout)["exit_code"] == 0
    [block] = record_of(installed, "run.json")["blocks"]
    monitor = block["monitor"]
    assert monitor["mode"] == "full-split"
    seen = monitor["endpoints"]["GET item"]
    assert seen["requests"] == 60
    assert seen["hold_us_sum"] >= 60 * 4_000
    assert seen["hold_us_max"] >= 4_000
    assert block["validity"]["reasons"] == []
    assert seen["blocked_us"]["slept"] >= 60 * 2_000
    assert '"blocked_ms_per_1000":null' not in done.stdout.replace(" ", "").replace("\n", "")


def test_a_monitor_on_another_machine_is_read_with_its_token(installed: Installation) -> None:
    scenario = str(HERE / "scenario.toml")
    with installed.uvicorn("from_elsewhere", UNSTALL_MONITOR_TOKEN="open sesame") as url:
        command = ["unstall", "run", scenario, "--target", url, "--requests", "20"]
        refused = installed.run(*command, "--out", "refused.json")
        installed.run(*command, "--out", "read.json", UNSTALL_MONITOR_TOKEN="open sesame")
    assert "(UNSTALL_MONITOR_TOKEN is what unstall sends)" in refused.stderr
    assert record_of(installed, "refused.json")["blocks"][0].get("monitor") is None
    assert record_of(installed, "read.json")["blocks"][0]["monitor"]["mode"] == "full-split"


def test_the_demo_says_where_its_service_is(installed: Installation) -> None:
    said = installed.run("unstall", "demo", "--quick", codes=(2,)).stderr
    assert "unstall-reference" in said
    assert "comes with the source" in said
