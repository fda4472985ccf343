"""A run with two database servers: the links as the scenario wants them, the probe, what was lost, and the judgement.

Answers to Jepsen's failover tests of databases. Invariants: what a server has acknowledged and the serving one does not
have is read from both by SQL; a commit that was lost so is no `commit` of the history, which tells of the database that
serves in the end; an anomaly is taken off the system under test only if every one of its kind is explained so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from harness.database.endpoint import Endpoint, run_database
from harness.database.probe import OF_PROBE, CommitProbe, probing
from harness.engine.database_losses import blamed_on_database
from harness.faults.real.pair_control import OUTPUTS, LostRows
from harness.history.event import Commit, Event
from harness.history.header import Header
from harness.history.merge import Leftovers
from harness.history.notes import Found, Line
from harness.history.probe import write_probe
from harness.history.verdict import InvariantVerdict, Judgement
from harness.judge.checkers.judge import judge
from harness.judge.checkers.substrate import LossAsked, judge_substrate
from harness.scenario.order import AnyScenario
from harness.scenario.outcome import FaultRecord
from harness.world.server_pair import PROBE, REPLICA_LINK
from harness.world.world import ReplicatedServer, World


@dataclass(slots=True, kw_only=True)
class TwoServers:
    """The two servers in one run. Mutable: the probe comes later."""

    world: World
    pair: ReplicatedServer
    database: str
    losses: Sequence[LostRows]
    """What faults found to be lost; it grows during the run."""
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

    def verdict(self, faults: Sequence[FaultRecord], scenario: AnyScenario) -> InvariantVerdict:
        """V22. The times of `faults` are on the machine's clock."""
        losing = {fault.id for fault in scenario.faults if fault.loses_commits}
        asked = [
            LossAsked(fault=record.id, ended_us=record.healed_us)
            for record in faults
            if record.id in losing and record.armed_us is not None
        ]
        return judge_substrate([] if self.probe is None else self.probe.operations, asked=asked)

    def judged(
        self, verdict: InvariantVerdict, lost: frozenset[tuple[int, int, int]]
    ) -> Callable[[Header, Sequence[Event]], Judgement]:
        """The judge of the run, with what is known of the database beside it."""
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
        yield TwoServers(world=world, pair=pair, database=databases[0], losses=pair.losses)


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
