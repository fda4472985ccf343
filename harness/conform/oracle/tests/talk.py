"""A conversation with the oracle, for tests: one command in, its events out.

Invariant: what a test is given is what stood between its command and the `quiet` that answered it.
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Sequence
from typing import IO, Any, TypeAlias

Event: TypeAlias = dict[str, Any]


class Talk:
    """One running program and our side of the conversation with it."""

    def __init__(self, command: Sequence[str]) -> None:
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    @property
    def pid(self) -> int:
        return self._process.pid

    def say(self, cmd: str, **fields: Any) -> list[Event]:
        """Send a command and return its events, `quiet` left out."""
        return self.say_bytes(json.dumps({"cmd": cmd, **fields}).encode())

    def say_bytes(self, line: bytes) -> list[Event]:
        self.send(line + b"\n")
        return self.hear()

    def send(self, data: bytes) -> None:
        _stream(self._process.stdin).write(data)
        _stream(self._process.stdin).flush()

    def hear(self) -> list[Event]:
        """The events up to the next `quiet`."""
        events: list[Event] = []
        while True:
            line = _stream(self._process.stdout).readline()
            assert line.endswith(b"\n"), f"the program ended, having said {events} and {line!r}"
            event = json.loads(line)
            if event == {"ev": "quiet"}:
                return events
            events.append(event)

    def hang_up(self) -> tuple[bytes, int]:
        """End its input; what it still says, and how it ends."""
        _stream(self._process.stdin).close()
        rest = _stream(self._process.stdout).read()
        return rest, self._process.wait(timeout=60)

    def end(self) -> None:
        """Let it go, whatever it is doing."""
        self._process.kill()
        self._process.wait(timeout=60)
        _stream(self._process.stdin).close()
        _stream(self._process.stdout).close()

    def open(self, *, now: int = 0, restore: Any = None, **config: Any) -> list[Event]:
        """Open with a configuration that names only what matters."""
        whole = {"mode": "ordered", "capacity": 10, "timeout_ms": 100, **config}
        return self.say("open", now=now, restore=restore, config=whole)

    def element(self, value: Any, ts: int | None = None, **hold: bool) -> list[Event]:
        return self.say("element", value=value, ts=ts, **hold)

    def complete(self, call: int, *results: Any, **hold: bool) -> list[Event]:
        return self.say("complete", call=call, results=list(results), **hold)

    def fail(self, call: int, error: str = "no", **hold: bool) -> list[Event]:
        return self.say("fail", call=call, error=error, **hold)

    def advance(self, to: int, **hold: bool) -> list[Event]:
        return self.say("advance", to=to, **hold)

    def error(self, cmd: str, **fields: Any) -> str:
        """The code with which a command is refused."""
        [event] = self.say(cmd, **fields)
        assert event["ev"] == "error", event
        return str(event["error"])


def call(number: int, value: Any, attempt: int = 1) -> Event:
    """The event of an invocation."""
    return {"ev": "call", "call": number, "value": value, "attempt": attempt}


def emit(value: Any, ts: int | None = None) -> Event:
    """The event of a result."""
    return {"ev": "emit", "value": value, "ts": ts}


def kinds(events: Sequence[Event]) -> list[str]:
    """What kind of event each is."""
    return [event["ev"] for event in events]


def _stream(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None, "both ends are pipes"
    return stream
