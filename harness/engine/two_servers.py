"""A run with two database servers: the links as the scenario wants them, the probe, what was lost, and the judgement.

Answers to Jepsen's failover tests of databases. Invariants: what a server has acknowledged and the serving one does not
have is read from both by SQL; a commit that was lost so is no `commit` of the history, which tells of the database that
serves in the end; an anomaly is taken off the system under test only if every one of its kind is explained so.

Blame: an anomaly that is nothing but what the database lost is the database's, and the run is undecided about it.

Answers to Jepsen's checkers that know which acknowledged writes a failover lost. Invariant: an invariant is taken off
the system under test only if each of its anomalies is one that the lost commits explain, and there are no more of
them, listed or not, than those commits make; then it is `unknown`, never `pass`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from harness.database.endpoint import Endpoint
from harness.database.probe import OF_PROBE, CommitProbe, probing
from harness.database.schema import run_database
from harness.faults.real.server_control import LostRows
from harness.history.event import Commit, Event, Owm, Row, Snap
from harness.history.header import Header
from harness.history.merge import Leftovers
from harness.history.notes import Found, Line
from harness.history.probe import write_probe
from harness.history.verdict import Anomaly, InvariantVerdict, Judgement, Outcome, worst
from harness.judge.checkers.judge import judge
from harness.judge.checkers.substrate import LossAsked, judge_substrate
from harness.scenario.claims import OUTPUTS
from harness.scenario.order import AnyScenario
from harness.scenario.outcome import FaultRecord
from harness.world.server_pair import PROBE, REPLICA_LINK
from harness.world.world import ReplicatedServer, World

_OF_RECORDS = frozenset({"lost", "no-effect", "row-missing"})
"""The classes of anomalies that say that something of a record is not there."""
_OF_EPOCHS = frozenset({"never-committed"})
_OF_WATERMARKS = frozenset({"watermark-lost"})


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lost:
    """What was in lost commits, and is not there in the end."""

    ids: frozenset[int]
    epochs: frozenset[tuple[int, int]]
    watermarks: frozenset[tuple[int, int | str]]

    def explains(self, anomaly: Anomaly) -> bool:
        """Whether the anomaly says no more than that."""
        if anomaly.kind in _OF_RECORDS:
            return anomaly.id in self.ids
        if anomaly.kind in _OF_EPOCHS:
            return (anomaly.s, anomaly.c) in self.epochs
        return anomaly.kind in _OF_WATERMARKS and (anomaly.s, anomaly.w) in self.watermarks

    def of(self, kind: str) -> int:
        """How many anomalies of such a kind it makes. Each thing lost makes one, so as many are no others."""
        if kind in _OF_RECORDS:
            return len(self.ids)
        return len(self.epochs if kind in _OF_EPOCHS else self.watermarks)


def blamed_on_database(
    found: Judgement,
    events: Iterable[Event],
    *,
    substrate: InvariantVerdict,
    epochs: Collection[tuple[int, int]],
    ids: Collection[int],
) -> Judgement:
    """`found` with V22, and without the anomalies that the lost commits explain.

    `epochs` (subtask, epoch) and `ids` (records) were on the server that is not serving any more, and only there.
    """
    listed = events if isinstance(events, list) else list(events)
    there = {event.id for event in listed if type(event) is Row and event.table == OUTPUTS}
    lost = _Lost(
        ids=frozenset(one for one in ids if one not in there),
        epochs=frozenset(epochs),
        watermarks=frozenset(_watermarks_of(listed, epochs)),
    )
    verdicts = [_excused(verdict, lost) for verdict in found.invariants]
    return joined(found, verdicts, substrate)


def _watermarks_of(
    events: Iterable[Event], epochs: Collection[tuple[int, int]]
) -> Iterator[tuple[int, int | str]]:
    """(subtask, watermark) of each watermark that left in one of `epochs`."""
    since: dict[tuple[int, int], list[int | str]] = {}
    for event in events:
        if type(event) is Owm:
            since.setdefault((event.s, event.a), []).append(event.w)
        elif type(event) is Snap:
            for watermark in since.pop((event.s, event.a), ()):
                if (event.s, event.c) in epochs:
                    yield event.s, watermark


def joined(found: Judgement, verdicts: Sequence[InvariantVerdict], substrate: InvariantVerdict) -> Judgement:
    """`found` with these verdicts and V22 among them, and the outcome that follows."""
    outcome = found.outcome
    if list(verdicts) != list(found.invariants):
        convicted = any(verdict.outcome is Outcome.FAIL for verdict in verdicts)
        outcome = Outcome.FAIL if convicted else Outcome.UNKNOWN
    every = sorted([*verdicts, substrate], key=lambda verdict: int(verdict.invariant[1:]))
    return replace(found, outcome=worst([outcome, substrate.outcome]), invariants=tuple(every))


def _excused(verdict: InvariantVerdict, lost: _Lost) -> InvariantVerdict:
    if verdict.outcome is not Outcome.FAIL:
        return verdict
    total = len(verdict.anomalies) + verdict.omitted
    if not all(map(lost.explains, verdict.anomalies)) or total > lost.of(verdict.anomalies[0].kind):
        return verdict
    return blamed(verdict, f"{total} of these belong to commits")


def blamed(verdict: InvariantVerdict, what: str) -> InvariantVerdict:
    """A verdict that is undecided, since the database lost `what`."""
    why = (
        f"blamed on the database (V22): {what} that it had acknowledged on one server, and that the server promoted "
        "since does not have"
    )
    return replace(verdict, outcome=Outcome.UNKNOWN, why=why)


@dataclass(slots=True, kw_only=True)
class TwoServers:
    """The two servers in one run. Mutable: the probe comes later."""

    world: World
    pair: ReplicatedServer
    database: str
    losses: Sequence[LostRows]
    """What faults found to be lost; it grows during the run."""
    losing: frozenset[str] = frozenset()
    """The faults that lose commits."""
    probe: CommitProbe | None = None

    @property
    def replica(self) -> Endpoint:
        """The replica, by its own link of the proxy."""
        return self.world.app.at(self.pair.links[REPLICA_LINK], self.database)

    @contextmanager
    def probed(self, folder: Path) -> Iterator[None]:
        """The probe is at work while the block lasts; its operations are in a file of `folder` afterwards."""
        name = f"{self.database}{OF_PROBE}"
        with run_database(self.world.root.at(self.world.direct, ""), name=name):
            try:
                with probing(self.world.app.at(self.pair.links[PROBE], name)) as self.probe:
                    yield
            finally:
                if self.probe is not None:
                    write_probe(folder / "probe.jsonl", self.probe.operations)

    def verdict(self, faults: Sequence[FaultRecord]) -> InvariantVerdict:
        """V22. The times of `faults` are on the machine's clock."""
        asked = [
            LossAsked(fault=record.id, ended_us=record.healed_us)
            for record in faults
            if record.id in self.losing and record.armed_us is not None
        ]
        return judge_substrate([] if self.probe is None else self.probe.operations, asked=asked)

    def judged(
        self, faults: Sequence[FaultRecord], lost: frozenset[tuple[int, int, int]]
    ) -> Callable[[Header, Sequence[Event]], Judgement]:
        """The judge of the run, with what is known of the database beside it."""
        verdict = self.verdict(faults)
        ids = frozenset(int(row["id"]) for one in self.losses if one.table == OUTPUTS for row in one.rows)
        epochs = frozenset((s, c) for s, c, _ in lost)

        def judged_beside(header: Header, events: Sequence[Event]) -> Judgement:
            found = judge(header, events)
            return blamed_on_database(found, events, substrate=verdict, epochs=epochs, ids=ids)

        return judged_beside


@contextmanager
def two_servers(
    world: World, scenario: AnyScenario, *, databases: Sequence[str], stays: bool
) -> Iterator[TwoServers | None]:
    """The servers of a run, set back afterwards; None if the scenario has one server.

    The first of `databases` is the run's.
    """
    if not scenario.has_two_servers:
        yield None
        return
    pair = world.pair
    assert pair is not None, "a world that was asked for a replica has one"
    with pair.of_run(*databases, lookups=scenario.lookups_from or "primary", stays=stays):
        yield TwoServers(
            world=world,
            pair=pair,
            database=databases[0],
            losses=pair.losses,
            losing=frozenset(fault.id for fault in scenario.faults if fault.loses_commits),
        )


def lost_epochs(lines: Sequence[Line]) -> frozenset[tuple[int, int, int]]:
    """(subtask, epoch, attempt) of each commit that a fault found on one server and not on the serving one."""
    found = [line.facts for line in lines if isinstance(line, Found)]
    return frozenset((s, c, a) for facts in found for s, c, a in facts.get("lost_epochs", ()))


def without_lost_epochs(leftovers: Leftovers, lost: frozenset[tuple[int, int, int]]) -> Leftovers:
    """The lines without each `commit` that was lost."""
    return replace(
        leftovers,
        lines=tuple(
            line
            for line in leftovers.lines
            if not (isinstance(line, Commit) and (line.s, line.c, line.a) in lost)
        ),
    )
