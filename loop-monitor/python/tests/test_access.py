"""Who may read the monitor; the same rules and answers as the monitor for Tokio has."""

import asyncio
from typing import Any

import pytest
from asgi_client import Answer, application, ask

from unstall import LoopMonitor

PATHS = ("/__unstall/snapshot", "/__unstall/metrics")


def asked(path: str = PATHS[0], token: str | None = None, **more: Any) -> Answer:
    return ask(LoopMonitor(application(lambda: asyncio.sleep(0)), token=token), path, **more)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("host", ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1"])
def test_loopback_may_ask(path: str, host: str) -> None:
    assert asked(path, client=(host, 9)).status == 200


@pytest.mark.parametrize(
    "host", ["10.0.0.1", "2001:db8::1", "::ffff:10.0.0.1", "0.0.0.0", "testclient", ""]
)
def test_others_may_not(host: str) -> None:
    answer = asked(client=(host, 9))
    assert answer.status == 403
    assert answer.text.startswith("unstall: the monitor answers this machine only")


def test_who_has_no_address_may_not() -> None:
    answer = asked(client=None)
    assert answer.status == 403
    assert "can't see who asks" in answer.text


@pytest.mark.parametrize("name", [b"forwarded", b"X-Forwarded-For", b"x-real-ip"])
def test_a_proxy_on_this_machine_is_no_loopback_peer(name: bytes) -> None:
    answer = asked(headers=[(name, b"127.0.0.1")])
    assert answer.status == 403
    assert "answers no proxy" in answer.text


def test_a_token_opens_from_anywhere_and_a_wrong_one_nowhere() -> None:
    good = [(b"authorization", b"bearer open sesame"), (b"x-forwarded-for", b"10.0.0.1")]
    for client in (("10.0.0.1", 9), None):
        assert asked(token="open sesame", headers=good, client=client).status == 200
    for wrong in (b"Bearer open", b"Bearer open sesame2", b"Bearer ", b"Bearer OPEN SESAME"):
        answer = asked(token="open sesame", headers=[(b"authorization", wrong)])
        assert answer.status == 403
        assert answer.text == "unstall: the token is not the monitor's\n"
    # A proxy that adds no header looks like this machine: it needs the token as well.
    for headers in ([], [(b"authorization", b"Basic open sesame")]):
        answer = asked(token="open sesame", headers=headers)
        assert answer.status == 403
        assert "send the monitor's token" in answer.text


def test_only_reading_is_answered() -> None:
    answer = asked(method="POST")
    assert (answer.status, answer.headers["allow"]) == (405, "GET, HEAD")
    answer = asked(method="HEAD")
    assert (answer.status, answer.body) == (200, b"")
    assert int(answer.headers["content-length"]) > 100


def test_the_paths_are_the_users_choice() -> None:
    served = application(lambda: asyncio.sleep(0))
    monitor = LoopMonitor(served, snapshot_path="/internal/loop", metrics_path="/internal/metrics")
    assert ask(monitor, "/internal/loop").headers["content-type"] == "application/json"
    assert ask(monitor, "/internal/metrics").headers["content-type"].startswith("text/plain")
    assert ask(monitor, PATHS[0]).status == 0, "the application answers, or doesn't"


def test_it_answers_below_the_servers_root_path() -> None:
    answer = asked("/api/__unstall/snapshot", root_path="/api")
    assert answer.status == 200
    assert asked("/__unstall/snapshot", root_path="/api").status == 200
