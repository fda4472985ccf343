"""The sink's link as a fault of a job follows it: who writes, who waits, and whether a held COMMIT was carried out.

Invariant: it reads the proxy's log of messages only, so what it says happened on the wire.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from harness.faults.real.evidence import ProxyEvidence
from harness.faults.real.fault_site import Control, Messages, toxics_on
from harness.system.clock import monotonic_us


@contextmanager
def sink_noted(control: Control, fault: str) -> Iterator[SinkLog]:
    """Has the proxy log every message of the sink's link while the block lasts."""
    every = Messages(command="any", times=0)
    with ExitStack() as stack:
        for stream in ("upstream", "downstream"):
            stack.enter_context(
                toxics_on(control, "sink", every.toxic(stream, "note"), name=f"{fault}.notes")
            )
        yield SinkLog(control=control, toxics=f"{fault}.notes.")


@dataclass(slots=True, kw_only=True)
class SinkLog:
    """What the proxy has noted since the block began. Mutable: each question reads on."""

    control: Control
    toxics: str
    _after: int = 0
    _noted: list[ProxyEvidence] = field(default_factory=list)

    def _read(self) -> Sequence[ProxyEvidence]:
        read = self.control.link_log("sink", self._after)
        if read is not None:
            self._after = read.next
            self._noted += [
                event for event in read.events if event.did == "noted" and event.toxic.startswith(self.toxics)
            ]
        return self._noted

    def newest_connection(self, *, known: int) -> int:
        """The highest number of a connection in the whole log of the link, at least `known`."""
        read = self.control.link_log("sink")
        return max([known, *(event.connection for event in (() if read is None else read.events))])

    def has_written(self, *, table: str, since: int) -> bool:
        """Whether a connection with a higher number than `since` has sent a write to `table` (empty: to any)."""
        written = (
            str(event.more.get("tables", "")).split(",")
            for event in self._read()
            if event.connection > since and event.stream == "upstream" and event.more.get("writes")
        )
        wanted = {table.lower(), "?"}
        return any(not table or name.rpartition(".")[2] in wanted for names in written for name in names)

    def waits_s(self, *, since: int = 0, but: Collection[int] = ()) -> float:
        """For how long the longest open request of a connection with a higher number has had no answer.

        Requests from the client ports `but` do not count.
        """
        open_us: dict[int, int] = {}
        for event in self._read():
            if event.connection <= since or event.more.get("peer") in but or event.command == "quit":
                continue
            if event.stream == "upstream":
                open_us[event.connection] = event.t_us
            else:
                open_us.pop(event.connection, None)
        return (monotonic_us() - min(open_us.values())) / 1e6 if open_us else 0.0

    def has_committed(self, connection: int, *, since_us: int) -> bool:
        """Whether the server has answered OK to what commits on that connection since then."""
        return any(
            event.connection == connection
            and event.stream == "downstream"
            and event.more.get("commits")
            and event.more.get("reply") == "ok"
            and event.t_us >= since_us
            for event in self._read()
        )

    def requests_from(self, ports: Collection[int], *, since_us: int) -> int:
        """How many requests came from these ports since then."""
        return sum(
            event.stream == "upstream" and event.t_us >= since_us and event.more.get("peer") in ports
            for event in self._read()
        )
