"""A pytest plugin: a test fails when its event loop is held by a call that can block.

    @pytest.mark.never_blocks                   one test
    unstall_never_blocks = true                 all of them (pytest.ini)
    with unstall_guard: ...                     a part of a test (fixture)

The command `unstall`, which comes in the same wheel, traces this process meanwhile: nothing is
patched, so what was imported before, C extensions and the interpreter itself are seen too. Only
calls inside a step of an event loop count, on whatever thread that loop runs; the work of
`asyncio.to_thread`, computations and waits for the interpreter lock never do.
"""

from collections.abc import Generator, Mapping
from types import TracebackType

import pytest

from unstall.proof_report import Allowed, BlockingCallError, Found, allowances, describe
from unstall.proof_tracer import ProofTracer, ProofUnavailableError

_INI_ALL = "unstall_never_blocks"
_INI_ALLOW = "unstall_allow"
_INI_UNAVAILABLE = "unstall_without_tracing"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Name what an ini file may hold."""
    parser.addini(_INI_ALL, "every test fails when its event loop is held", "bool", default=False)
    parser.addini(_INI_ALLOW, "calls that may block, a line each: PATTERN: REASON", "linelist")
    parser.addini(
        _INI_UNAVAILABLE,
        "where this process can't be traced: `error` for tests that ask for it, or `skip`",
        default="error",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Name the markers and begin to guard."""
    for line in (
        "never_blocks(allow={pattern: reason}): fails when an event loop is held by a call that "
        "can block; a pattern is a part of a line such as `app.py:12 in handler`, a call's name or "
        "its target",
        "may_block(reason): not guarded, whatever unstall_never_blocks says",
    ):
        config.addinivalue_line("markers", line)
    config.pluginmanager.register(_Plugin(config), "unstall-guard")


class _Plugin:
    """One tracer for all tests of this process, and what they were allowed."""

    def __init__(self, config: pytest.Config) -> None:
        self._skips = _skips_where_untraced(config)
        self._guards_all = bool(config.getini(_INI_ALL))
        self._allow = _allowances_of_lines(config.getini(_INI_ALLOW))
        self._rootpath = config.rootpath
        self._tracer: ProofTracer | None = None
        self._allowed: list[Allowed] = []
        self._stretch: _Stretch | None = None

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        """Guard the test's own call; what fixtures do before and after is theirs."""
        marker = item.get_closest_marker("never_blocks")
        may_block = item.get_closest_marker("may_block")
        if may_block is not None and not (may_block.args or may_block.kwargs.get("reason")):
            pytest.fail("@pytest.mark.may_block needs a reason", pytrace=False)
        if may_block is not None or (marker is None and not self._guards_all):
            return (yield)
        allow = marker.kwargs.get("allow", {}) if marker is not None else {}
        stretch = self.stretch(allow)
        stretch.begin()
        try:
            result = yield
        except BaseException:
            message = stretch.end()
            if message is not None:
                item.add_report_section("call", "unstall", message)
            raise
        message = stretch.end()
        if message is not None:
            pytest.fail(message, pytrace=False)
        return result

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._allowed:
            terminalreporter.section("blocking calls that were allowed")
            for allowed in self._allowed:
                terminalreporter.write_line(str(allowed))

    def pytest_unconfigure(self) -> None:
        if self._tracer is not None:
            self._tracer.close()

    def stretch(self, allow: Mapping[str, str]) -> "_Stretch":
        return _Stretch(self, {**self._allow, **allowances(allow)})

    def begin(self, stretch: "_Stretch") -> bool:
        """Trace from here on; false within a stretch that does so already."""
        if self._stretch is not None:
            if stretch.allow.keys() - self._stretch.allow.keys():
                pytest.fail(
                    "unstall_guard(allow=…) within a guarded test would allow it in the whole "
                    "test: give it to @pytest.mark.never_blocks(allow=…), or leave the test out "
                    "by @pytest.mark.may_block('why') and guard its parts",
                    pytrace=False,
                )
            return False
        if self._tracer is None or not self._tracer.is_usable():
            self._tracer = ProofTracer()
        try:
            self._tracer.begin()
        except ProofUnavailableError as error:
            if self._skips:
                pytest.skip(f"not guarded: {error}")
            pytest.fail(f"unstall can't guard this test: {error}", pytrace=False)
        self._stretch = stretch
        return True

    def end(self, stretch: "_Stretch") -> str | None:
        self._stretch = None
        assert self._tracer is not None, "a stretch begins before it ends"  # noqa: S101
        try:
            certificate = self._tracer.end()
        except ProofUnavailableError as error:
            return f"unstall lost track of this test, so nothing is proven: {error}"
        found = Found.of_certificate(certificate, self._rootpath)
        blocking, allowed = found.part(stretch.allow)
        self._allowed.extend(allowed)
        return describe(blocking)


class _Stretch:
    """What runs between two moments."""

    def __init__(self, plugin: _Plugin, allow: dict[str, str]) -> None:
        self.allow = allow
        self._plugin = plugin
        self._is_outermost = False

    def begin(self) -> None:
        self._is_outermost = self._plugin.begin(self)

    def end(self) -> str | None:
        return self._plugin.end(self) if self._is_outermost else None


class UnstallGuard:
    """The fixture's value: `with unstall_guard:` or `with unstall_guard(allow={...}):`."""

    def __init__(self, plugin: _Plugin, allow: Mapping[str, str]) -> None:
        self._plugin = plugin
        self._allow = allow
        self._stretches: list[_Stretch] = []

    def __call__(self, *, allow: Mapping[str, str]) -> "UnstallGuard":
        return UnstallGuard(self._plugin, {**self._allow, **allow})

    def __enter__(self) -> "UnstallGuard":  # noqa: PYI034 - `Self` is new in 3.11
        stretch = self._plugin.stretch(self._allow)
        stretch.begin()
        self._stretches.append(stretch)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        message = self._stretches.pop().end()
        # An interruption goes on as it is; an error is told together with what was found.
        if message is not None and (error is None or isinstance(error, Exception)):
            raise BlockingCallError(message) from error


@pytest.fixture
def unstall_guard(request: pytest.FixtureRequest) -> UnstallGuard:
    """Fail when the event loop is held inside the `with` block of this value."""
    plugin = request.config.pluginmanager.get_plugin("unstall-guard")
    assert isinstance(plugin, _Plugin), "registered by pytest_configure"  # noqa: S101
    return UnstallGuard(plugin, {})


def _skips_where_untraced(config: pytest.Config) -> bool:
    choice = config.getini(_INI_UNAVAILABLE)
    if choice not in ("error", "skip"):
        message = f"{_INI_UNAVAILABLE}: `error` or `skip` is expected, and not {choice!r}"
        raise pytest.UsageError(message)
    return bool(choice == "skip")


def _allowances_of_lines(lines: list[str]) -> dict[str, str]:
    allow = {}
    for line in lines:
        pattern, colon, reason = line.rpartition(": ")
        if not colon or not pattern.strip() or not reason.strip():
            message = f"{_INI_ALLOW}: `PATTERN: REASON` is expected, and not {line!r}"
            raise pytest.UsageError(message)
        allow[pattern.strip()] = reason.strip()
    return allow
