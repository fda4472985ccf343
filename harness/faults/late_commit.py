"""`late_commit`: hold a COMMIT that writes, kill its sender, and let it through when the next start is at work.

Answers to a packet that waits in a network device longer than its sender lives. The server cannot know that the sender
is dead, so it commits. Evidence: the COMMIT of a writing transaction was held, its sender was gone, and the server
answered it with OK after a later start had begun.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Final, Literal

from harness.clock import Deadline, monotonic_us, wait_until
from harness.errors import WorldError
from harness.faults.model.fault import JobFault
from harness.faults.model.fields import UntilEffective
from harness.faults.real.evidence import Evidence, ProxyEvidence, Seen
from harness.faults.real.fault_site import Control, Messages, Site, packets_on
from harness.faults.real.held_message import SINK
from harness.faults.real.job_kill import job_of, owner_of_held
from harness.process_identity import is_alive
from harness.scenario_parts.parts import Breach
from harness.scenario_parts.triggers import SinkMoment

__all__ = ["LateCommit"]

_RESTART_S: Final = 180.0
"""How long the next start may take to begin and to write; an engine takes up to a minute."""
_GONE_S: Final = 10.0
_COMMIT_S: Final = 30.0
"""How long the server may take to carry out the COMMIT that was let through."""
_LOOK_S: Final = 0.01
_WRITES: Final = frozenset({"insert", "update", "delete", "replace", "load", "call", "truncate", "merge"})


class LateCommit(JobFault):
    """Holds the COMMIT until the successor's first write, or for `for`, then lets it through."""

    about = (
        "A COMMIT that writes is held, its sender is killed (SIGKILL), and it reaches the server when the next start "
        "has sent its first write, or `for` after the kill."
    )
    must_show = (
        "The held transaction had changed rows, its sender was gone, and the server carried out the COMMIT after the "
        "next start had begun."
    )
    triggers = ("sink",)
    can = ()

    do: Literal["late_commit"]
    lasts: UntilEffective = None

    @property
    def lasts_ms(self) -> int | None:
        """None: the wait is over before the fault counts as active."""
        return None

    def breaches(self) -> Iterator[Breach]:
        yield from super().breaches()
        when = self.when
        if isinstance(when, SinkMoment) and (when.sink, when.moment) != ("commit", "before"):
            say = "`late_commit` holds a COMMIT before the server gets it"
            yield Breach(path=("when",), say=say, hint=f"write {{sink: commit, nth: {when.nth}}}")

    @contextmanager
    def inject(self, site: Site) -> Iterator[None]:
        """The COMMIT is let through before the block begins, or when the run ends."""
        held, job = site.held, job_of(site)
        assert held is not None, "a late COMMIT is held first"
        owner, start = owner_of_held(site, fault=self.id), job.newest()
        with _noting(site.control, self.id):
            log = _Log(control=site.control, since_us=held.held_us)
            killed_us = monotonic_us()
            if not job.kill(owner, fault=self.id):
                raise WorldError(f"the sender of the COMMIT had ended before {self.id} could kill it")
            gone = wait_until(lambda: not is_alive(owner), deadline=Deadline(_GONE_S))
            successor = self._await_successor(site, log, known=held.connection)
            newest = job.newest()
            if (
                not successor
                and newest is not None
                and newest.number > (0 if start is None else start.number)
            ):
                successor = "has started"
            let_through_us = monotonic_us()
            held.release()
            committed = wait_until(
                lambda: log.has_committed(held.connection), deadline=Deadline(_COMMIT_S), every_s=_LOOK_S
            )
            site.found(
                what="late",
                pid=owner.pid,
                gone=gone,
                held=held.name,
                rows_modified=held.rows_modified,
                held_ms=(let_through_us - held.held_us) // 1000,
                after_the_kill_ms=(let_through_us - killed_us) // 1000,
                successor=successor,
                committed=committed,
            )
            yield

    def _await_successor(self, site: Site, log: _Log, *, known: int) -> str:
        """Waits for the first write over a connection that was opened since, or for `for`; what came, in words."""
        deadline = Deadline(_RESTART_S if self.lasts is None else self.lasts / 1000)
        newest = max([known, *log.connections()])
        writes = False
        while not deadline.passed and not site.over.is_set():
            writes = writes or log.has_written(since=newest)
            if writes and self.lasts is None:
                break
            site.over.wait(_LOOK_S)
        return "writes" if writes else ""

    def evidence(self, seen: Seen) -> Evidence:
        late = seen.fact("late")
        if late is None or not (late["gone"] and late["committed"] and late["successor"]):
            return {}
        names = ("pid", "held", "rows_modified", "held_ms", "after_the_kill_ms", "successor")
        return {name: late[name] for name in names}


@contextmanager
def _noting(control: Control, fault: str) -> Iterator[None]:
    """Has the proxy log every message of the sink's link while the block lasts."""
    every = Messages(command="any", times=0)
    with ExitStack() as stack:
        for stream in ("upstream", "downstream"):
            stack.enter_context(
                packets_on(control, SINK, every, name=f"{fault}.notes", stream=stream, do="note")
            )
        yield


@dataclass(slots=True, kw_only=True)
class _Log:
    """What the proxy noted on the sink's link since the fault began. Mutable: it reads on."""

    control: Control
    since_us: int
    _after: int = 0
    _noted: list[ProxyEvidence] = field(default_factory=list)

    def _read(self) -> Sequence[ProxyEvidence]:
        read = self.control.deeds(SINK, self._after)
        if read is not None:
            self._after = read.next
            self._noted += [deed for deed in read.deeds if deed.did == "noted"]
        return self._noted

    def connections(self) -> list[int]:
        """The connections that have sent or got a message so far."""
        return [deed.connection for deed in self._read()]

    def has_written(self, *, since: int) -> bool:
        """Whether a connection with a higher number has sent a statement that may change rows."""
        return any(
            deed.connection > since and deed.stream == "upstream" and deed.more.get("statement") in _WRITES
            for deed in self._read()
        )

    def has_committed(self, connection: int) -> bool:
        """Whether the server has answered a COMMIT of that connection with OK since it was held."""
        return any(
            deed.connection == connection
            and (deed.stream, deed.command, deed.more.get("reply")) == ("downstream", "commit", "ok")
            and deed.t_us >= self.since_us
            for deed in self._read()
        )
