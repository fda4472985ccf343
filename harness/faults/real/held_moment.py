"""Holds one message of a job's link: the n-th COMMIT or write that changes the sink's table, or message at all.

Answers to a debugger's breakpoint, set on the wire: while the message is held, the job stands still at a known point,
so whatever is done then is done without a race. Invariants: the proxy counts, so that two moments of one run do not
disturb each other; other messages go on, and when the block ends nothing is held any more, also after an exception.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Final, Self

from harness.faults.parts.triggers import LookupMoment, SinkMoment
from harness.faults.real.evidence import ProxyEvidence
from harness.faults.real.fault_site import MessageControl, ToxicRequest
from harness.faults.real.held_message import HeldMessage
from harness.faults.real.server_control import RootLine, ServerControl
from harness.system.clock import Deadline, Flag, monotonic_us, wait_until

_LOOK_S: Final = 0.01
_CACHED_S: Final = 0.11
"""InnoDB answers questions about transactions from a copy that is up to 0.1 s old while it is asked more often."""
_ANSWER_S: Final = 60.0
"""How long the answer of a COMMIT that was let through may take."""


@contextmanager
def held_at(
    when: SinkMoment | LookupMoment,
    *,
    name: str,
    control: MessageControl,
    server: ServerControl,
    over: Flag,
    table: str = "*",
    armed: Callable[[], None] = lambda: None,
    standing_still: Callable[[], AbstractContextManager[int]] | None = None,
) -> Iterator[HeldMessage | None]:
    """Waits for the moment and holds its message while the block lasts; None: `over` was set before it came.

    COMMITs and writes count if they change `table`; `*`: any table. `armed` is called when no message can be missed any
    more. The toxics are called `name.upstream`, `name.downstream`. `standing_still` is entered as soon as a message is
    held, before anything is asked: what the job's other connections do meanwhile belongs to another moment.
    """
    with _Holding(
        when=when,
        name=name,
        control=control,
        server=server,
        over=over,
        table=table,
        standing_still=standing_still,
    ) as holding:
        holding.arm()
        armed()
        held = holding.await_it()
        try:
            yield held
        finally:
            if held is not None:
                held.release()


@dataclass(slots=True, kw_only=True)
class _Holding:
    """The toxics of one moment and a cursor in the proxy's log. Mutable; use it as a block."""

    when: SinkMoment | LookupMoment
    name: str
    control: MessageControl
    server: ServerControl
    over: Flag
    table: str
    standing_still: Callable[[], AbstractContextManager[int]] | None
    _stack: ExitStack = field(default_factory=ExitStack)
    _still: ExitStack = field(default_factory=ExitStack)
    _after: int = 0
    _page: int = 0
    """Where the part of the log begins that was read last."""
    _queue: deque[ProxyEvidence] = field(default_factory=deque)
    _asked_us: int = 0
    _root: RootLine | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        with self._still:
            self._stack.close()

    @property
    def _is_commit(self) -> bool:
        return self.when.counts == "commit"

    def arm(self) -> None:
        """Sets the toxic that holds the `nth` message; of COMMITs also later ones, for that one may change no row."""
        read = self.control.link_log(self.when.link, self._after)
        self._after = 0 if read is None else read.next
        if self._is_commit:
            self._root = self._stack.enter_context(RootLine(self.server))
            self._hold("upstream", on="commit", table=self.table, nth=self.when.nth, times=0)
        else:
            stream = "upstream" if self.when.moment == "before" else "downstream"
            is_write = self.when.counts == "write"
            of_table = {"on": "write", "table": self.table} if is_write else {"on": "any"}
            self._hold(stream, **of_table, nth=self.when.nth, times=1)

    def _hold(self, stream: str, **attributes: int | str) -> None:
        toxic = f"{self.name}.{stream}"
        self._stack.callback(self.control.remove_toxic, self.when.link, toxic)
        self.control.add_toxic(
            self.when.link,
            ToxicRequest(name=toxic, type="packet", stream=stream, attributes={"do": "hold", **attributes}),
        )

    def await_it(self) -> HeldMessage | None:
        """The held message; None: `over` was set first."""
        while not self.over.is_set():
            while (event := self._next_hold()) is not None:
                stopped_us = self._still.enter_context(self.standing_still()) if self.standing_still else None
                rows = self._rows_modified(event) if self._is_commit and event.command == "commit" else None
                if rows != 0:
                    return self._found(event, rows, stopped_us)
                self.control.release(self.when.link, event.toxic, event.connection)
                self._still.close()
            self.over.wait(_LOOK_S)
        return None

    def _next_hold(self) -> ProxyEvidence | None:
        """The next message that the toxics of this moment hold."""
        read = self.control.link_log(self.when.link, self._after) if not self._queue else None
        if read is not None:
            self._page, self._after = self._after, read.next
            own = (event for event in read.events if event.toxic.startswith(f"{self.name}."))
            self._queue.extend(event for event in own if event.did == "held")
        return self._queue.popleft() if self._queue else None

    def _found(self, event: ProxyEvidence, rows: int | None, stopped_us: int | None) -> HeldMessage | None:
        """COMMITs held beside it and later ones pass; with `after`, this one is let through and its answer held."""
        meanwhile = 0 if stopped_us is None else self._passed_meanwhile(event, stopped_us)
        if self._is_commit and self.when.moment == "after":
            self._hold("downstream", on="commit", nth=1, times=0)
            self.control.release(self.when.link, event.toxic, event.connection)
            answer = self._await_answer(event.connection)
            if answer is None:
                return None
            event = answer
        if self._is_commit:
            self.control.hold_no_more(self.when.link, event.toxic)
            if self.when.moment == "after":
                self.control.hold_no_more(self.when.link, f"{self.name}.upstream")
            while (other := self._next_hold()) is not None:
                if other.connection != event.connection:
                    self.control.release(self.when.link, other.toxic, other.connection)
        return HeldMessage(
            control=self.control,
            toxic=event.toxic,
            connection=event.connection,
            peer=int(event.more.get("peer", 0)),
            when=self.when,
            said=_in_words(event),
            counted=self._counted(event),
            held_us=event.t_us,
            stopped_us=stopped_us,
            meanwhile=meanwhile,
            still=self._still,
            rows_modified=rows,
        )

    def _passed_meanwhile(self, held: ProxyEvidence, until_us: int) -> int:
        """How many messages the link's other connections have sent or got since; `held` was in the page read last."""
        read = self.control.link_log(self.when.link, self._page)
        return sum(
            one.did == "noted" and one.connection != held.connection and held.t_us < one.t_us <= until_us
            for one in (() if read is None else read.events)
        )

    def _counted(self, event: ProxyEvidence) -> str:
        """The table whose messages were counted, in words."""
        if self.table == "*":
            return "of any table"
        names = (name.rpartition(".")[2] for name in str(event.more.get("tables", "")).split(","))
        return f"of {self.table}" if self.table.lower() in names else "of tables that it does not tell"

    def _await_answer(self, connection: int) -> ProxyEvidence | None:
        """The held answer of the COMMIT that was let through; None: it did not come."""
        deadline = Deadline(_ANSWER_S)
        while not self.over.is_set() and not deadline.passed:
            while (event := self._next_hold()) is not None:
                if event.connection == connection and event.stream == "downstream":
                    return event
                self.control.release(self.when.link, event.toxic, event.connection)
            self.over.wait(_LOOK_S)
        return None

    def _rows_modified(self, event: ProxyEvidence) -> int:
        """How many rows the transaction of a held COMMIT has changed; 0: it only reads, or there is none."""
        assert self._root is not None, "a COMMIT is held only after `arm`"
        fresh_us = self._asked_us + round(_CACHED_S * 1_000_000)
        wait_until(lambda: monotonic_us() >= fresh_us, deadline=Deadline(_CACHED_S))
        rows = self._root(self.server.writers)
        self._asked_us = monotonic_us()
        return dict(rows or ()).get(int(event.more["session"]), 0)


def _in_words(event: ProxyEvidence) -> str:
    statement = str(event.more.get("statement") or event.command)
    table = str(event.more.get("table") or "")
    return f"{statement.upper()} {table}".strip()
