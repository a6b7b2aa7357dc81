"""The built wheel in an environment of its own, on a path without Rust."""

import shutil
import socket
import subprocess
import sys
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).parent
REQUIREMENTS = HERE.parent / "requirements.txt"


class Installation:
    """The environment: its programs, those of the machine, and nothing of Rust."""

    def __init__(self, folder: Path, wheel: str) -> None:
        self.folder = folder
        self.wheel = wheel
        self.bin = folder / "venv/bin"
        self._install(wheel)
        tools = folder / "tools"
        tools.mkdir()
        for place in ("/bin", "/usr/bin"):
            for program in Path(place).iterdir():
                if not program.name.startswith(("cargo", "rust")):
                    link = tools / program.name
                    link.unlink(missing_ok=True)
                    link.symlink_to(program)
        self.path = f"{self.bin}:{tools}"
        assert shutil.which("cargo", path=self.path) is None
        assert shutil.which("rustc", path=self.path) is None

    def _install(self, wheel: str) -> None:
        venv.create(self.folder / "venv", with_pip=True)
        pip = [str(self.bin / "python"), "-m", "pip", "install", "--quiet"]
        pip += ["--disable-pip-version-check", "--constraint", str(REQUIREMENTS)]
        # The wheel alone first: it depends on nothing, so no index is asked.
        subprocess.run([*pip, "--no-index", wheel], check=True, stdout=sys.stderr)
        subprocess.run([*pip, "uvicorn", "fastapi"], check=True, stdout=sys.stderr)

    def environment(self, **more: str) -> dict[str, str]:
        return {"PATH": self.path, "HOME": str(self.folder), "LC_ALL": "C.UTF-8", **more}

    def run(
        self, *command: str, codes: tuple[int, ...] = (0,), cwd: Path | None = None, **more: str
    ) -> subprocess.CompletedProcess[str]:
        done = subprocess.run(
            command,
            cwd=cwd or self.folder,
            env=self.environment(**more),
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert done.returncode in codes, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
        return done

    @contextmanager
    def uvicorn(self, app: str, **more: str) -> Iterator[str]:
        """Serve an application of `served.py`, on a socket that listens already."""
        with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
            listener.set_inheritable(True)
            command = [str(self.bin / "python"), "-B", "-m", "uvicorn", "--app-dir", str(HERE)]
            command += ["--fd", str(listener.fileno()), "--log-level", "warning", f"served:{app}"]
            process = subprocess.Popen(
                command, env=self.environment(**more), pass_fds=[listener.fileno()]
            )
            try:
                yield f"http://127.0.0.1:{listener.getsockname()[1]}"
            finally:
                end(process)


def end(process: "subprocess.Popen[bytes]") -> None:
    """End it in order, and by force if it doesn't."""
    process.terminate()
    try:
        process.wait(20)
    finally:
        process.kill()
