"""What a certificate says, as a test's message: the lines that held the loop, each once."""

import linecache
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

_CALLERS_MAX = 3


class BlockingCallError(AssertionError):
    """The event loop was held by a call that can block."""


@dataclass
class Line:
    """One line of code and the calls that it made."""

    place: str
    source: str
    callers: list[str]
    endpoint: str | None
    calls: dict[str, int] = field(default_factory=dict)
    searched: list[str] = field(default_factory=list)
    """What an allowance's pattern may be a part of."""

    def __str__(self) -> str:
        made = "; ".join(f"{call}, {_times(count)}" for call, count in self.calls.items())
        lines = [f"{self.place}: {self.source}" if self.source else self.place, f"    {made}"]
        lines += [f"    called by {caller}" for caller in self.callers]
        if self.endpoint is not None:
            lines.append(f"    in {self.endpoint}")
        return "\n".join(f"  {line}" for line in lines)


@dataclass(frozen=True)
class Allowed:
    """One line that may block, and why."""

    place: str
    count: int
    reason: str

    def __str__(self) -> str:
        return f"{self.place} ({_times(self.count)}): {self.reason}"


class Found:
    """All lines that made calls which can block."""

    def __init__(self, lines: list[Line]) -> None:
        self.lines = lines

    @classmethod
    def of_certificate(cls, certificate: Mapping[str, Any], root: Path) -> "Found":
        lines: dict[tuple[str, str | None], Line] = {}
        for route in certificate["routes"].values():
            for finding in route["findings"]:
                cause = finding["cause"]
                line = _line(cause, root)
                line = lines.setdefault((line.place, line.endpoint), line)
                call = _call(cause)
                line.calls[call] = line.calls.get(call, 0) + finding["count"]
                line.searched += _searched(cause, root)
        return cls(list(lines.values()))

    def part(self, allow: Mapping[str, str]) -> tuple[list[Line], list[Allowed]]:
        """Part what must not block from what may."""
        blocking, allowed = [], []
        for line in self.lines:
            reason = next((why for part, why in allow.items() if _matches(part, line)), None)
            if reason is None:
                blocking.append(line)
            else:
                allowed.append(Allowed(line.place, sum(line.calls.values()), reason))
        return blocking, allowed


def describe(lines: list[Line]) -> str | None:
    """Say which lines held the loop; none if none did."""
    if not lines:
        return None
    listed = "\n".join(str(line) for line in lines)
    return (
        f"the event loop was held by calls that can block:\n{listed}\n"
        "Await an async call instead, or run it by asyncio.to_thread. If it may block: "
        '@pytest.mark.never_blocks(allow={"app.py:12": "why"})'
    )


def allowances(allow: Any) -> dict[str, str]:
    """Check what a test gave as `allow`."""
    if not isinstance(allow, Mapping) or not all(
        isinstance(word, str) and word.strip() for pair in allow.items() for word in pair
    ):
        message = f"allow: a dict of patterns and reasons is expected, and not {allow!r}"
        raise TypeError(message)
    return dict(allow)


def _matches(part: str, line: Line) -> bool:
    return any(part in text for text in line.searched)


def _line(cause: Mapping[str, Any], root: Path) -> Line:
    frames = cause.get("frames", [])
    own = next((at for at, frame in enumerate(frames) if frame["is_own"]), None)
    if own is None:
        own = 0
    blamed = frames[own] if frames else None
    if blamed is None:
        return Line("a line that isn't known", "", [], cause.get("endpoint"))
    callers = (frame for frame in frames[own + 1 :] if frame["is_own"])
    return Line(
        place=_place(blamed, root),
        source=_source(blamed),
        callers=[
            _place(frame, root) for frame, _ in zip(callers, range(_CALLERS_MAX), strict=False)
        ],
        endpoint=cause.get("endpoint"),
    )


def _place(frame: Mapping[str, Any], root: Path) -> str:
    file = frame.get("file") or "?"
    path = Path(file)
    if path.is_relative_to(root):
        file = str(path.relative_to(root))
    return f"{file}:{frame.get('line', '?')} in {frame['function']}"


def _source(frame: Mapping[str, Any]) -> str:
    return linecache.getline(frame.get("file") or "", frame.get("line") or 0).strip()


def _call(cause: Mapping[str, Any]) -> str:
    target = cause.get("target")
    words = cause.get("syscall") or "I/O"
    if target is not None:
        name = f" ({target['name']})" if target.get("name") else ""
        words += f" on {target['what']}{name}"
    return f"{words}"


def _searched(cause: Mapping[str, Any], root: Path) -> Iterator[str]:
    yield _call(cause)
    for frame in cause.get("frames", []):
        yield _place(frame, root)


def _times(count: int) -> str:
    return "once" if count == 1 else f"{count} times"
