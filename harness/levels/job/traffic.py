"""What a job did over the proxy's links, from the proxy's log: messages, calls, errors and lost connections.

A job writes no journal of ours, so our proxy's log is the journal: two toxics a link note every message. Answers to
`harness.history.follower` for runs of the operator. Invariant: an entry is what passed the proxy; a request without an
answer is kept with no end, and nothing is concluded from what a client did not do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import pairwise, takewhile
from typing import Final, Literal

from harness.faults.real.evidence import Loss, ProxyEvidence
from harness.faults.real.fault_site import MessageControl, Toxic, toxics_on
from harness.history.follower import TimedCall

NOTES: Final = "job-notes"
"""The name of the toxics that note every message."""
_LINKS: Final = ("lookups", "sink")
_NOTING: Final = Toxic("packet", ("upstream", "downstream"), {"do": "note", "on": "any", "times": 0})
_NOTHING_SAID: Final = frozenset({"handshake", "quit", "ping"})
_AROUND_LOOKUPS: Final = frozenset({"set", "begin", "start", "commit", "rollback"})
"""What a client sends around its lookups."""

_READ_APART_US: Final = 1_000_000
_LOST: Final = 2013
"""`Lost connection to server`: the error of a client whose connection ends while it waits, or before it asks again."""
_REFUSED: Final = 2003
"""`Can't connect to server`."""
_BY_THE_PROXY: Final = frozenset({"cut", "reset", "shut", "limited", "refused"})

Side = Literal["request", "answer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One message of a link, as the proxy saw it come."""

    t_us: int
    link: str
    side: Side
    n: int
    """Its number among the requests, or the answers, of its link, from 1."""
    connection: int
    peer: int
    """The client's port."""
    session: int = 0
    """The server's number of the session; 0: it has not greeted."""
    pid: int = 0
    """The process that opened the connection; 0: not known, since it is found out only while starts may overlap."""
    command: str
    statement: str
    """The statement's first word, of several in one query that of each; empty: the command has none."""
    table: str
    reply: str = ""
    """What an answer is: `ok`, `error` or `result`."""
    code: int = 0
    """The number of the error that an answer is; 0: it is none."""
    writes: int = 0
    """How many of its statements may change rows."""
    commits: int = 0
    """How many of them are a COMMIT, or a write that the server commits by itself."""
    tables: tuple[str, ...] = ()
    """The tables that it changes, or for a COMMIT those that its transaction has changed; `?`: unknown ones."""

    @property
    def name(self) -> str:
        """The message in words: `COMMIT`, `UPDATE offsets`, `HANDSHAKE`."""
        return f"{(self.statement or self.command).upper()} {self.table}".strip()

    @property
    def is_call(self) -> bool:
        """Whether it asks for something: its answer is a call's of the user, on the lookups' link a lookup's."""
        is_around = self.link == "lookups" and self.statement in _AROUND_LOOKUPS
        return self.command not in _NOTHING_SAID and not is_around

    def changes(self, table: str) -> bool:
        """Whether it may change rows of `table`, or commit such a change; empty: of any table."""
        if not table:
            return bool(self.tables)
        return any(name.rpartition(".")[2] in {table.lower(), "?"} for name in self.tables)


def requests_over(messages: Iterable[Message], link: str) -> list[Message]:
    """The requests among `messages` over one link, in order."""
    return [one for one in messages if one.link == link and one.side == "request"]


def has_lookups_beside(messages: Iterable[Message]) -> bool:
    """Whether two connections for lookups were in use side by side, so that one can wait while the other is served."""
    begun: dict[int, int] = {}
    ended: dict[int, int] = {}
    for place, one in enumerate(one for one in messages if one.link == "lookups"):
        begun.setdefault(one.connection, place)
        ended[one.connection] = place
    return any(begun[later] < ended[earlier] for earlier, later in pairwise(begun))


@contextmanager
def noted(control: MessageControl) -> Iterator[None]:
    """Notes every message of both links while the block lasts; begin it before the job's first start."""
    with ExitStack() as stack:
        for link in _LINKS:
            stack.enter_context(toxics_on(control, link, _NOTING, name=NOTES))
        yield


@dataclass(slots=True, kw_only=True)
class Traffic:
    """Reads the proxy's log of both links; `poll` adds what is new. Mutable."""

    control: MessageControl
    messages: list[Message] = field(default_factory=list)
    calls: list[TimedCall] = field(default_factory=list)
    """Calls with an outcome, in the order of their ends."""
    errors: list[Loss] = field(default_factory=list)
    """Errors that clients got, lost connections included; the code of a loss is the one that a client reports."""
    losses: list[Loss] = field(default_factory=list)
    lost_us: dict[int, int] = field(default_factory=dict)
    """When each connection to the sink was lost that its client had not ended, by its number."""
    codes: dict[int, int] = field(default_factory=dict)
    """The number of the error that a request to the sink was answered with, by the request's number; 0: with none."""
    unsent: set[int] = field(default_factory=set)
    """The requests to the sink that the proxy answered by itself, so that the server never got them."""
    entries_lost: int = 0
    """Entries of the log that were dropped before they were read."""
    _after: dict[str, int] = field(default_factory=dict)
    _open: dict[tuple[str, int], list[Message]] = field(default_factory=dict)
    """Requests without an answer, by link and connection."""
    _refused: dict[tuple[str, int], int] = field(default_factory=dict)
    """The error that the proxy answered a request with of which it has not yet noted that it came."""
    _ended: dict[tuple[str, int], None] = field(default_factory=dict)

    def skip(self) -> None:
        """Leaves out what the log holds of earlier runs."""
        for link in _LINKS:
            read = self.control.link_log(link, self._after.get(link, 0))
            self._after[link] = 0 if read is None else read.next

    def poll(self) -> None:
        """Reads what was logged since the last call."""
        for link in _LINKS:
            read = self.control.link_log(link, self._after.get(link, 0))
            if read is None:
                continue
            self._after[link] = read.next
            self.entries_lost += read.lost
            for event in read.events:
                self._take(link, event)

    def reads_of(self, table: str, since_us: int) -> list[bool]:
        """For each SELECT of `table` that was sent after `since_us`, or still waits, whether it has an answer."""
        waiting = [one for asked in self._open.values() for one in asked]
        asked = {id(one) for one in waiting}
        # The links are read one after the other, so their messages do not stand in the order of time.
        late = takewhile(lambda one: one.t_us > since_us - _READ_APART_US, reversed(self.messages))
        answered = [one for one in late if one.t_us > since_us and id(one) not in asked]

        def reads(some: Sequence[Message]) -> int:
            of_table = [one for one in some if one.table.rpartition(".")[2] == table]
            return sum(one.side == "request" and one.statement == "select" for one in of_table)

        return [False] * reads(waiting) + [True] * reads(answered)

    def waiting(self) -> list[TimedCall]:
        """Calls that have no outcome yet."""
        return [
            TimedCall(began_us=one.t_us, ended_us=None, ending=None, link=link)
            for (link, _), asked in self._open.items()
            for one in asked
            if one.is_call
        ]

    @property
    def trouble(self) -> str:
        """What is missing here of what passed the proxy; empty: nothing."""
        if not self.entries_lost:
            return ""
        return (
            f"{self.entries_lost} entries of the proxy's log were dropped before they were read: calls, errors and the"
            " evidence of faults may be missing."
        )

    def _take(self, link: str, event: ProxyEvidence) -> None:
        key = (link, event.connection)
        match event.did:
            case "noted" if event.stream == "upstream":
                message = _message(link, "request", event)
                self.messages.append(message)
                self._open.setdefault(key, []).append(message)
                if key in self._refused:
                    self._refuse(key, event.t_us, self._refused.pop(key))
            case "noted":
                message = _message(link, "answer", event)
                self.messages.append(message)
                if message.code:
                    self.errors.append((message.t_us, message.link, message.code))
                if asked := self._open.get(key):
                    self._answer(asked.pop(0), message.t_us, message.code)
            case "error":
                # The proxy answered with an error of its own.
                code = int(event.more.get("code", 0))
                self.errors.append((event.t_us, link, code))
                if event.stream == "upstream" and self._open.get(key):
                    self._refuse(key, event.t_us, code)
                elif event.stream == "upstream":
                    self._refused[key] = code
            case "ended":
                self._lose(key, event, by_client=event.stream == "upstream")
            case "undialled":
                self._note_loss(event.t_us, link, _REFUSED)
            case did if did in _BY_THE_PROXY and event.connection:
                self._lose(key, event, by_client=False)

    def _refuse(self, key: tuple[str, int], t_us: int, code: int) -> None:
        """The server does not get the newest request of this connection, which the proxy answers itself."""
        asked = self._open[key].pop()
        if asked.link == "sink":
            self.unsent.add(asked.n)
        self._answer(asked, t_us, code or _LOST)

    def _lose(self, key: tuple[str, int], event: ProxyEvidence, *, by_client: bool) -> None:
        """A connection ends, once: its client loses it, or has given up the requests that it still waits for."""
        if key in self._ended:
            return
        self._ended[key] = None
        asked = [one for one in self._open.pop(key, []) if one.command != "quit"]
        for one in asked:
            self._end(one, event.t_us, "timeout" if by_client else "fail")
        if not by_client:
            self._note_loss(event.t_us, key[0], _LOST)
            if key[0] == "sink":
                self.lost_us[key[1]] = event.t_us

    def _note_loss(self, t_us: int, link: str, code: int) -> None:
        self.losses.append((t_us, link, code))
        self.errors.append((t_us, link, code))

    def _answer(self, asked: Message, t_us: int, code: int) -> None:
        if asked.link == "sink":
            self.codes[asked.n] = code
        self._end(asked, t_us, "fail" if code else "ok")

    def _end(self, asked: Message, t_us: int, ending: str) -> None:
        if asked.is_call:
            self.calls.append(TimedCall(began_us=asked.t_us, ended_us=t_us, ending=ending, link=asked.link))


def _message(link: str, side: Side, event: ProxyEvidence) -> Message:
    more: Mapping[str, object] = event.more
    return Message(
        t_us=event.t_us,
        link=link,
        side=side,
        n=int(str(more["match"])),
        connection=event.connection,
        peer=int(str(more.get("peer", 0))),
        session=int(str(more.get("session", 0))),
        pid=int(str(more.get("pid", 0))),
        command=event.command,
        statement=str(more.get("statement", "")),
        table=str(more.get("table", "")),
        reply=str(more.get("reply", "")),
        code=int(str(more.get("code", 0))),
        writes=int(str(more.get("writes", 0))),
        commits=int(str(more.get("commits", 0))),
        tables=tuple(str(more.get("tables") or "").split(",")) if more.get("tables") else (),
    )
