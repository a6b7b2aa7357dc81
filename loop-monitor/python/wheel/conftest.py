"""Fixtures: one installation of the wheel for all tests."""

import os
from pathlib import Path

import pytest
from installation import Installation


@pytest.fixture(scope="session")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    wheel = os.environ.get("UNSTALL_WHEEL")
    if not wheel or not Path(wheel).is_file():
        pytest.fail(f"UNSTALL_WHEEL is {wheel!r} and names no wheel: run ./dev test")
    return Installation(tmp_path_factory.mktemp("installed"), wheel)
