"""A conversation by hand: its bytes, a wire that remembers, and receivers that collect."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from harness.proxy.mysql.conversation import MySqlConversation
from harness.proxy.mysql.dialogue import PROTOCOL_41
from harness.proxy.mysql.frames import framed
from harness.proxy.mysql.rules import ATTRIBUTES, PacketToxic, refuse
from harness.proxy.toxics.stage import Stream

OK = b"\x00\x00\x00\x02\x00\x00\x00"
EOF = b"\xfe\x00\x00\x02\x00"
_ABILITIES = (PROTOCOL_41).to_bytes(4, "little")
GREETING = framed(
    b"\x0a8.4.0\0" + b"\1\0\0\0" + b"saltsalt" + b"\0" + _ABILITIES[:2] + b"\x21" + b"\2\0" + _ABILITIES[2:]
    + b"\x15" + bytes(10) + b"saltsaltsalt\0",
    sequence=0,
)  # fmt: skip
LOGIN = framed(_ABILITIES + bytes(4) + b"\x21" + bytes(23) + b"app\0" + b"\0", sequence=1)
LOGGED_IN = framed(OK, sequence=2)


def query(sql: str) -> bytes:
    """A statement as it is sent."""
    return framed(b"\x03" + sql.encode(), sequence=0)


def rows(count: int) -> bytes:
    """A result of one column, with EOF packets."""
    payloads = [
        b"\x01",
        b"\x03def" + bytes(20),
        EOF,
        *(b"\x01" + b"%d" % (n % 10) for n in range(count)),
        EOF,
    ]
    return b"".join(framed(payload, sequence=n + 1) for n, payload in enumerate(payloads))


@dataclass
class Collected:
    """A receiver."""

    got: bytes = b""
    endings: list[str] = field(default_factory=list)

    def data(self, chunk: bytes) -> None:
        assert chunk
        self.got += chunk

    def eof(self) -> None:
        self.endings.append("eof")

    def reset(self) -> None:
        self.endings.append("reset")


class FakeTimer:
    def cancel(self) -> None:
        raise AssertionError("the connection cancels timers, not the gate")


@dataclass
class FakeWire:
    """A connection whose clock is set by hand."""

    events: list[dict[str, Any]] = field(default_factory=list)
    endings: list[str] = field(default_factory=list)
    time_s: float = 0.0
    timers: list[tuple[float, Callable[[], None]]] = field(default_factory=list)

    def reset(self) -> None:
        self.endings.append("reset")

    def close(self) -> None:
        self.endings.append("close")

    def call_later(self, seconds: float, act: Callable[[], None]) -> FakeTimer:
        self.timers.append((self.time_s + seconds, act))
        return FakeTimer()

    def now(self) -> float:
        return self.time_s

    def eased(self) -> None:
        pass

    def client_pid(self) -> int:
        return 0

    def client_port(self) -> int:
        return 50_000

    def log_event(self, did: str, *, stream: str, toxic: str, **numbers: int | str) -> None:
        self.events.append({"did": did, "stream": stream, "toxic": toxic, **numbers})

    def did(self, did: str) -> list[dict[str, Any]]:
        """The log entries of that name."""
        return [event for event in self.events if event["did"] == did]

    def pass_time(self, seconds: float) -> None:
        """Run what is due by then."""
        self.time_s += seconds
        due = [act for at, act in self.timers if at <= self.time_s]
        self.timers = [timer for timer in self.timers if timer[0] > self.time_s]
        for act in due:
            act()


class Exchanged:
    """A conversation between two collecting ends, logged in if it is not said otherwise."""

    def __init__(self, *, logged_in: bool = True) -> None:
        self.wire = FakeWire()
        self.talk = MySqlConversation(self.wire)
        self.server, self.client = Collected(), Collected()
        self.talk.requests.next, self.talk.replies.next = self.server, self.client
        if logged_in:
            self.down(GREETING)
            self.up(LOGIN)
            self.down(LOGGED_IN)
            self.server.got = self.client.got = b""

    def toxic(self, stream: str = "downstream", name: str = "t", **attributes: int | str) -> PacketToxic:
        """A packet toxic that acts on this conversation from now on."""
        whole = {**ATTRIBUTES, **attributes}
        assert refuse(whole) == ""
        toxic = PacketToxic(name=name, stream=Stream(stream), attributes=whole)
        self.talk.add(toxic)
        return toxic

    def up(self, chunk: bytes) -> None:
        """The client sends; as a direction does it."""
        self._feed(self.talk.requests, self.server, chunk)

    def down(self, chunk: bytes) -> None:
        """The server sends."""
        self._feed(self.talk.replies, self.client, chunk)

    def _feed(self, gate: Any, end: Collected, chunk: bytes) -> None:
        if gate.tracking:
            gate.track(chunk)
            end.data(chunk)
        else:
            gate.data(chunk)
