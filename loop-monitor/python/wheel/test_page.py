"""The page "Benchmark your own migration step" does what it says: its files, its commands.

The page marks what belongs to it: `file:` names the block that follows, `serve:` is a server in the
background, `run` a command that must succeed, `run: verdict` one whose verdict is open.
"""

import json
import re
import shlex
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from installation import REQUIREMENTS, Installation, end

PAGE = Path(__file__).parents[3] / "docs/benchmark-your-own-step.md"
BLOCK = re.compile(
    r"^<!-- (\w+)(?:: ([^\n]+?))? -->\n(?:```\w+\n(.*?)^```$)?", re.MULTILINE | re.DOTALL
)

SMALL = " --pairs 5 --requests 60 -c 4 --warmup 0"
"""What the test adds to a comparison: the page's own size takes minutes."""


def marked() -> list[tuple[str, str, str]]:
    """List the page's marks in order: kind, argument, block."""
    text = PAGE.read_text(encoding="utf-8")
    return [(kind, argument, block) for kind, argument, block in BLOCK.findall(text)]


def free_ports(commands: list[str]) -> dict[str, str]:
    """Give each port that the page's servers name one that is free here."""
    named = {found for command in commands for found in re.findall(r"--port (\d+)", command)}
    with ExitStack() as held:
        sockets = {
            port: held.enter_context(socket.create_server(("127.0.0.1", 0))) for port in named
        }
        return {port: str(listener.getsockname()[1]) for port, listener in sockets.items()}


@contextmanager
def served(installed: Installation, folder: Path, command: str) -> Iterator[None]:
    port = int(command.rsplit(" ", 1)[1])
    process = subprocess.Popen(
        [*shlex.split(command), "--log-level", "warning"],
        cwd=folder,
        env=installed.environment(),
    )
    try:
        deadline = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
                break
            except OSError:
                assert process.poll() is None, f"{command} has ended"
                assert time.monotonic() < deadline, f"{command} doesn't listen"
                time.sleep(0.05)
        yield
    finally:
        end(process)


def test_the_page_does_what_it_says(installed: Installation, tmp_path: Path) -> None:
    marks = marked()
    ports = free_ports([argument for kind, argument, _ in marks if kind == "serve"])

    def on_free_ports(text: str) -> str:
        for port, free in ports.items():
            text = text.replace(f":{port}", f":{free}").replace(f"--port {port}", f"--port {free}")
        return text

    began = time.monotonic()
    first_number_s = None
    run = 0
    with ExitStack() as servers:
        for kind, argument, block in marks:
            if kind == "file":
                path = tmp_path / argument
                path.parent.mkdir(exist_ok=True)
                path.write_text(block, encoding="utf-8")
            elif kind == "serve":
                servers.enter_context(served(installed, tmp_path, on_free_ports(argument)))
            elif argument == "install":
                shutil.copy(installed.wheel, tmp_path)
                installed.run("sh", "-ec", block, cwd=tmp_path, PIP_CONSTRAINT=str(REQUIREMENTS))
                run += 1
            else:
                command = on_free_ports(block.strip())
                assert kind == "run", kind
                if command.startswith("unstall ab"):
                    command += SMALL
                # An open verdict may be none of two: a regression, or wrong usage.
                codes = (0, 3, 4) if argument == "verdict" else (0,)
                installed.run("sh", "-c", command, cwd=tmp_path, codes=codes)
                run += 1
                if command.startswith("unstall run"):
                    first_number_s = time.monotonic() - began
    assert run >= 9, "the page has lost its marks"
    # Promised to newcomers; ten times what it takes.
    assert first_number_s is not None
    assert first_number_s < 180, "from installing the wheel to the first number"
    for written in ("items.json", "items.html", "urls.json", "fresh.json", "unstall.xml"):
        assert (tmp_path / written).is_file(), written
    check_record(tmp_path)


def check_record(folder: Path) -> None:
    """See that the step shows: the version before held the loop, and all answers were right."""
    record = json.loads((folder / "items.json").read_text(encoding="utf-8"))
    held, blocked = {"before": 0, "after": 0}, {"before": 0, "after": 0}
    for block in record["blocks"]:
        seen = block["monitor"]["endpoints"]["GET item"]
        held[block["arm"]] += seen["hold_us_sum"]
        blocked[block["arm"]] += sum(seen["blocked_us"].values())
        assert block["errors"] == {}
    assert held["before"] > held["after"] > 0
    page = (folder / "items.html").read_text(encoding="utf-8")
    assert "blocked time is unknown" not in page
    assert blocked["before"] > 10 * blocked["after"]


def test_every_block_of_commands_is_marked() -> None:
    """A command that nobody runs rots: those in `sh` blocks are run, but servers and resets."""
    text = PAGE.read_text(encoding="utf-8")
    blocks = len(re.findall(r"^```sh$", text, re.MULTILINE))
    ours = sum(bool(block) and kind in ("run", "serve", "file") for kind, _, block in marked())
    toml_and_python = len(re.findall(r"^```(?:toml|python)$", text, re.MULTILINE))
    assert blocks + toml_and_python == ours


@pytest.mark.parametrize("name", ["sh", "toml", "python", "yaml"])
def test_the_marks_are_read(name: str) -> None:
    assert f"```{name}\n" in PAGE.read_text(encoding="utf-8")
