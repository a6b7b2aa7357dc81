"""The pytest plugin, as its users have it: a test run of its own, whose words are looked at."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from guarded_app import BLOCKING, CLEAN

from unstall.proof_tracer import find_program

_TESTS = Path(__file__).parent
_SOURCES = _TESTS.parent / "src"


def _command() -> str | None:
    """Find the built `unstall`: named, or beside the environment that `./dev setup` makes."""
    named = os.environ.get("UNSTALL_BIN")
    built = Path(sys.prefix).parent / "debug/unstall"
    return named or (str(built) if built.exists() else None)


COMMAND = _command()
_MISSING = "the command isn't built: cargo build -p unstall-bench-harness, or set UNSTALL_BIN"
if COMMAND is None and "CI" in os.environ:
    pytest.fail(_MISSING)  # where everything is built, its absence is a mistake
pytestmark = pytest.mark.skipif(COMMAND is None, reason=_MISSING)


class Run:
    """One run of pytest in a folder of its own."""

    def __init__(self, folder: Path, test: str, *, ini: str = "", **variables: str) -> None:
        (folder / "test_it.py").write_text(f"import asyncio, time, pytest\n{test}")
        (folder / "pytest.ini").write_text(f"[pytest]\n{ini}")
        (folder / "this_is_imported_late.py").write_text("")
        environment = {
            **os.environ,
            "PYTHONPATH": f"{_SOURCES}:{_TESTS}",
            "UNSTALL_BIN": str(COMMAND),
            **variables,
        }
        words = ["-B", "-m", "pytest", "-p", "no:cacheprovider", "-p", "unstall.pytest_plugin"]
        done = subprocess.run(
            [sys.executable, *words, "-W", "ignore", "-rA", str(folder)],
            capture_output=True,
            text=True,
            check=False,
            cwd=folder,
            env=environment,
        )
        self.text = done.stdout + done.stderr

    def outcome(self, test: str) -> str:
        """Say how a test ended."""
        found = re.search(
            rf"^(PASSED|FAILED|ERROR|SKIPPED)\s.*{re.escape(test)}", self.text, re.MULTILINE
        )
        assert found is not None, self.text
        return found[1].lower()


DRIVERS = """
import httpx
from guarded_app import BLOCKING, CLEAN, app
from starlette.testclient import TestClient

ALL = [*BLOCKING, *CLEAN, "sync"]

@pytest.mark.never_blocks
@pytest.mark.parametrize("route", ALL)
def test_in_another_thread(route):
    assert TestClient(app).get(f"/{route}").status_code == 200

@pytest.mark.anyio
@pytest.mark.never_blocks
@pytest.mark.parametrize("route", ALL)
async def test_in_this_thread(route):
    import sys
    sys.modules.pop("this_is_imported_late", None)
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://app") as client:
        assert (await client.get(f"/{route}")).status_code == 200
"""

BACKENDS = """
@pytest.fixture(params=[("asyncio", {"use_uvloop": False}), ("asyncio", {"use_uvloop": True})],
                ids=["asyncio", "uvloop"])
def anyio_backend(request):
    return request.param
"""


def test_what_blocks_fails_and_nothing_else(tmp_path: Path) -> None:
    run = Run(tmp_path, DRIVERS + BACKENDS)
    drivers = ["test_in_another_thread[{}]"]
    drivers += [f"test_in_this_thread[{loop}-{{}}]" for loop in ("asyncio", "uvloop")]
    wrong = [
        (driver.format(route), outcome, expected)
        for driver in drivers
        for expected, routes in (("failed", BLOCKING), ("passed", [*CLEAN, "sync"]))
        for route in routes
        if (outcome := run.outcome(driver.format(route))) != expected
    ]
    assert not wrong, f"{wrong}\n{run.text}"


def test_the_message_names_the_line_and_the_call(tmp_path: Path) -> None:
    test = """
def nap():
    time.sleep(0.001)

@pytest.mark.never_blocks
def test_it():
    async def handler():
        nap()
    asyncio.run(handler())
"""
    run = Run(tmp_path, test)
    assert run.outcome("test_it") == "failed"
    assert "test_it.py:4 in nap: time.sleep(0.001)" in run.text
    assert "clock_nanosleep, once" in run.text
    assert "called by test_it.py:9 in" in run.text


def test_only_steps_of_a_loop_count(tmp_path: Path) -> None:
    test = """
@pytest.mark.never_blocks
def test_it():
    time.sleep(0.001)
    asyncio.run(asyncio.sleep(0.001))
    open(__file__).read()
"""
    assert Run(tmp_path, test).outcome("test_it") == "passed"


def test_a_part_of_a_test_is_guarded_by_the_fixture(tmp_path: Path) -> None:
    test = """
from unstall.proof_report import BlockingCallError

def test_before_and_after(unstall_guard):
    async def handler():
        time.sleep(0.001)
        with unstall_guard:
            await asyncio.sleep(0.001)
        time.sleep(0.001)
    asyncio.run(handler())

def test_inside(unstall_guard):
    async def handler():
        with pytest.raises(BlockingCallError, match="time.sleep"), unstall_guard:
            time.sleep(0.001)
        with unstall_guard(allow={"in test_inside": "a nap is the point"}):
            time.sleep(0.001)
    asyncio.run(handler())
"""
    run = Run(tmp_path, test)
    assert run.outcome("test_before_and_after") == "passed"
    assert run.outcome("test_inside") == "passed"
    assert "a nap is the point" in run.text


def test_a_part_allows_nothing_in_the_whole_test(tmp_path: Path) -> None:
    test = """
@pytest.mark.never_blocks(allow={"in test_same": "once"})
def test_same(unstall_guard):
    with unstall_guard(allow={"in test_same": "once"}):
        pass

@pytest.mark.never_blocks
def test_more(unstall_guard):
    async def before():
        time.sleep(0.001)
    asyncio.run(before())
    with unstall_guard(allow={"clock_nanosleep": "only here"}):
        pass
"""
    run = Run(tmp_path, test)
    assert run.outcome("test_same") == "passed", run.text
    assert run.outcome("test_more") == "failed", run.text
    assert "would allow it in the whole test" in run.text


def test_all_tests_are_guarded_if_the_ini_file_says_so(tmp_path: Path) -> None:
    test = """
async def handler():
    time.sleep(0.001)

def test_guarded():
    asyncio.run(handler())

@pytest.mark.may_block("it is slow")
def test_left_out():
    asyncio.run(handler())

@pytest.mark.may_block
def test_without_a_reason():
    asyncio.run(handler())

async def other():
    time.sleep(0.001)

def test_allowed():
    asyncio.run(other())
"""
    ini = "unstall_never_blocks = true\nunstall_allow =\n    in other: nobody waits for it\n"
    run = Run(tmp_path, test, ini=ini)
    assert run.outcome("test_guarded") == "failed"
    assert run.outcome("test_left_out") == "passed"
    assert run.outcome("test_without_a_reason") == "failed"
    assert run.outcome("test_allowed") == "passed"
    assert "nobody waits for it" in run.text


def test_where_nothing_can_be_traced_no_test_is_green(tmp_path: Path) -> None:
    test = """
@pytest.mark.never_blocks
def test_it():
    pass
"""
    run = Run(tmp_path, test, UNSTALL_BIN="/nowhere/unstall")
    assert run.outcome("test_it") == "failed"
    assert "/nowhere/unstall can't be started" in run.text
    # A command that is refused: nothing there to trace for `false`, which says nothing.
    run = Run(tmp_path, test, UNSTALL_BIN="/bin/false")
    assert run.outcome("test_it") == "failed"
    assert "ended with status 1" in run.text
    skipping = "unstall_without_tracing = skip\n"
    run = Run(tmp_path, test, ini=skipping, UNSTALL_BIN="/nowhere/unstall")
    assert "1 skipped" in run.text
    assert "not guarded" in run.text


def test_another_program_of_that_name_is_told(tmp_path: Path) -> None:
    program = tmp_path / "unstall"
    program.write_text("#!/bin/sh\nread word\necho hello\ncat > /dev/null\n")
    program.chmod(0o755)
    test = """
@pytest.mark.never_blocks
def test_it():
    pass
"""
    run = Run(tmp_path, test, UNSTALL_BIN=str(program))
    assert run.outcome("test_it") == "failed"
    assert f"`{program} prove` said 'hello', which is no event" in run.text


def test_the_command_of_the_environment_comes_before_the_path_s(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    places = [tmp_path / name for name in ("environment", "path")]
    for place in places:
        place.mkdir()
        (place / "unstall").write_text("#!/bin/sh\n")
        (place / "unstall").chmod(0o755)
    beside, elsewhere = (str(place / "unstall") for place in places)
    monkeypatch.delenv("UNSTALL_BIN", raising=False)
    monkeypatch.setenv("PATH", str(places[1]))
    monkeypatch.setattr(sys, "executable", str(places[0] / "python"))
    assert find_program() == beside
    Path(beside).unlink()
    assert find_program() == elsewhere
    monkeypatch.setenv("UNSTALL_BIN", "/named/unstall")
    assert find_program() == "/named/unstall"


def test_an_unknown_choice_is_a_mistake(tmp_path: Path) -> None:
    run = Run(tmp_path, "", ini="unstall_without_tracing = ignore\n")
    assert "`error` or `skip` is expected, and not 'ignore'" in run.text
    run = Run(tmp_path, "", ini="unstall_allow =\n    no reason\n")
    assert "`PATTERN: REASON` is expected" in run.text
