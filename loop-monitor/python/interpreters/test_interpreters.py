"""The middleware's tests on every interpreter that the package supports and that is installed here.

Each gets an environment beside the one that runs this, made anew when the requirements change.
"""

import hashlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PACKAGE = HERE.parent
REQUIREMENTS = HERE / "requirements.txt"
MINORS = (10, 11, 12, 13)
"""Of Python 3: from the package's `requires-python` to the newest that the frameworks name."""

NOT_OF_THE_LANGUAGE = ("test_frameworks.py", "test_pytest_plugin.py", "test_servers.py")
"""Of servers, frameworks and the built command, whatever the interpreter; and nine tenths of the
time. `check tests` runs them on one interpreter."""


def candidates(minor: int) -> Iterator[str]:
    yield f"python3.{minor}"
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    uv = Path.home() / ".local/share/uv/python"
    for folder, pattern in ((pyenv, "versions/3.{}.*"), (uv, "cpython-3.{}.*")):
        for version in sorted(folder.glob(pattern.format(minor))):
            yield str(version / "bin/python3")


def interpreter(minor: int) -> str | None:
    """Find one that is of this version, as its name may lie, and can make environments."""
    check = f"import sys, venv, ensurepip; sys.exit(sys.version_info[:2] != (3, {minor}))"
    for candidate in candidates(minor):
        try:
            tried = subprocess.run([candidate, "-c", check], check=False, capture_output=True)
        except FileNotFoundError:
            continue
        if tried.returncode == 0:
            return candidate
    return None


def environment(python: str, minor: int) -> Path:
    """Make the environment, unless the last one was made of the same."""
    folder = Path(sys.prefix).parent / "interpreters" / f"3.{minor}"
    made_of = folder / "made-of"
    wanted = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest() + f" {python}"
    own = folder / "bin/python"
    if not made_of.exists() or made_of.read_text() != wanted:
        subprocess.run([python, "-m", "venv", "--clear", str(folder)], check=True)
        pip = [str(own), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*pip, "--requirement", str(REQUIREMENTS)], check=True)
        # Last: an environment without it is one that was never finished.
        made_of.write_text(wanted)
    return own


@pytest.mark.parametrize("minor", MINORS)
def test_the_middleware_works_on(minor: int) -> None:
    if sys.version_info[:2] == (3, minor):
        pytest.skip("the package's own tests run on this interpreter already")
    python = interpreter(minor)
    if python is None:
        pytest.skip(f"Python 3.{minor} isn't installed: neither on the path nor by pyenv or uv")
    pytest_of_it = [str(environment(python, minor)), "-B", "-m", "pytest", "-p", "no:cacheprovider"]
    ran = subprocess.run(
        [*pytest_of_it, *(f"--ignore=tests/{slow}" for slow in NOT_OF_THE_LANGUAGE), "tests"],
        cwd=PACKAGE,
        env=os.environ | {"PYTHONPATH": str(PACKAGE / "src")},
        check=False,
        capture_output=True,
        text=True,
    )
    assert ran.returncode == 0, ran.stdout[-4_000:] + ran.stderr[-2_000:]
