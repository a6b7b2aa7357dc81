"""The command `unstall` as a tracer of this process, one stretch of time after the other."""

import contextlib
import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

_END_MARK = 0x55_4E53_5441_4C4C
"""`MARKER_OFFSET` of the command: a seek of no descriptor to here ends a trace at that call."""

_BEGIN_MARK = _END_MARK - 1
"""The same for its beginning."""

_ENDS_WITHIN_S = 5.0
"""A command that has nothing more to read ends at once."""

_PR_SET_PTRACER = 0x5961_6D61
_YAMA_SCOPE = Path("/proc/sys/kernel/yama/ptrace_scope")


class ProofUnavailableError(Exception):
    """The process can't be traced; the words say why and what to do."""


class ProofTracer:
    """Starts the command at the first stretch and keeps it for the next ones."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._command: subprocess.Popen[str] | None = None
        self._program = "unstall"
        self._complaints = tempfile.TemporaryFile("w+")  # noqa: SIM115 - as long as the command

    def is_usable(self) -> bool:
        """Say whether it is of this process: a fork's child needs one of its own."""
        return self._pid == os.getpid()

    def begin(self) -> None:
        """Trace all threads from here on."""
        if self._command is None:
            self._command = self._start()
        command = self._command
        assert command.stdin is not None  # noqa: S101 - it is a pipe
        # If it has ended, what it said before is the better error.
        with contextlib.suppress(BrokenPipeError):
            command.stdin.write("begin\n")
            command.stdin.flush()
        self._read("ready")
        _mark(_BEGIN_MARK)

    def end(self) -> dict[str, Any]:
        """Give the certificate of what happened since `begin`."""
        _mark(_END_MARK)
        certificate: dict[str, Any] = self._read("end")["certificate"]
        return certificate

    def close(self) -> None:
        """End the command."""
        command, self._command = self._command, None
        if command is not None and self.is_usable():
            assert command.stdin is not None  # noqa: S101 - it is a pipe
            command.stdin.close()
            command.wait()
            assert command.stdout is not None  # noqa: S101 - it is a pipe
            command.stdout.close()
        self._complaints.close()

    def _start(self) -> "subprocess.Popen[str]":
        program = find_program()
        if program is None:
            message = (
                f"the command `unstall` is neither beside {sys.executable} nor on the PATH; it "
                "comes with the wheel, or name it by UNSTALL_BIN"
            )
            raise ProofUnavailableError(message)
        self._program = program
        words = [program, "prove", "--pid", str(self._pid), "--events", "--stretches"]
        try:
            command = subprocess.Popen(  # noqa: S603 - the command that the user installed
                words,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._complaints,
                text=True,
                # Ctrl-C in the terminal is for pytest, which ends the command.
                start_new_session=True,
            )
        except OSError as error:
            message = f"{program} can't be started: {error}"
            raise ProofUnavailableError(message) from error
        allow_tracing_by(command.pid)
        return command

    def _read(self, event: str) -> dict[str, Any]:
        command = self._command
        assert command is not None  # noqa: S101 - only called after the start
        assert command.stdout is not None  # noqa: S101 - it is a pipe
        line = command.stdout.readline()
        told = _told(line)
        if told.get("event") != event:
            self._command = None
            raise ProofUnavailableError(self._complaint(command, line))
        return told

    def _complaint(self, command: "subprocess.Popen[str]", line: str) -> str:
        """End a command that went wrong, and give its own words for it."""
        assert command.stdin is not None  # noqa: S101 - it is a pipe
        assert command.stdout is not None  # noqa: S101 - it is a pipe
        # It waits for the next word; and if it is no `unstall`, nothing tells it to end.
        with contextlib.suppress(BrokenPipeError):
            command.stdin.close()
        command.stdout.close()
        try:
            status = command.wait(_ENDS_WITHIN_S)
        except subprocess.TimeoutExpired:
            command.kill()
            status = command.wait()
        self._complaints.seek(0)
        said = self._complaints.read().strip().removeprefix("error: ")
        if line:
            words = f"`{self._program} prove` said {line.strip()[:200]!r}, which is no event"
            return f"{words}: is that the command of this wheel? {said}".strip()
        return said or f"`unstall prove` ended with status {status}"


def find_program() -> str | None:
    """Find the command: named by UNSTALL_BIN, or of this environment, or anywhere on the PATH."""
    named = os.environ.get("UNSTALL_BIN")
    beside = shutil.which("unstall", path=Path(sys.executable).parent) if sys.executable else None
    return named or beside or shutil.which("unstall")


def _told(line: str) -> dict[str, Any]:
    """Read one event; nothing of what isn't one."""
    try:
        told = json.loads(line)
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


def _mark(offset: int) -> None:
    """Make a call that fails and changes nothing, for who traces to see."""
    with contextlib.suppress(OSError):
        os.lseek(-1, offset, os.SEEK_SET)


def allow_tracing_by(pid: int) -> None:
    """Let a process trace this one where Yama allows it to parents only."""
    try:
        scope = _YAMA_SCOPE.read_text().strip()
    except OSError:
        return  # no Yama, no need
    if scope == "1":
        # A refusal is told by the tracer, with what to do.
        ctypes.CDLL(None).prctl(_PR_SET_PTRACER, ctypes.c_ulong(pid), 0, 0, 0)
