"""What the environment says: where the servers are."""

import os
from dataclasses import dataclass

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

POOL_KEPT = 10
"""Connections to PostgreSQL that a pool keeps."""
POOL_OVERFLOW = 10
"""Connections that it opens beyond those under load."""
WAIT_S = 5
"""How long a request waits for a connection, and a connection for its server, in seconds."""


class SettingsError(Exception):
    """A variable is missing or wrong."""


@dataclass(frozen=True)
class Settings:
    """Where the servers are."""

    database_url: URL
    redis_url: str
    stream_idle_max_s: float
    """How long a run's stream may say nothing before its worker is taken for dead."""

    @classmethod
    def from_environment(cls) -> "Settings":
        """Read `DATABASE_URL` and `REDIS_URL`."""
        database_url = _variable("DATABASE_URL", "postgres://app@127.0.0.1:5432/app")
        try:
            # One driver speaks both ways: psycopg, with a Session and with an AsyncSession.
            url = make_url(database_url).set(drivername="postgresql+psycopg")
        except ArgumentError as error:
            raise SettingsError(
                "DATABASE_URL is not a URL; it looks like postgres://app@127.0.0.1:5432/app"
            ) from error
        return cls(
            url,
            _variable("REDIS_URL", "redis://127.0.0.1:6379/0"),
            _seconds("STREAM_IDLE_MAX_S", 120.0),
        )


def _variable(name: str, example: str) -> str:
    value = os.environ.get(name)
    if not value:
        raise SettingsError(f"{name} is not set; it looks like {example}")
    return value


def _seconds(name: str, default: float) -> float:
    value = os.environ.get(name)
    try:
        return float(value) if value else default
    except ValueError:
        raise SettingsError(f"{name} is not a number of seconds: {value}") from None
