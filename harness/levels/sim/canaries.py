"""The canaries of level sim: through the memory recorder, the tables of the simulated server and the judge.

A short run shows besides what no recorded history can: that a fault which acted on nothing has no evidence, that equal
seeds give equal runs, and different seeds different ones.
"""

from __future__ import annotations

import json
import os
from functools import cache
from typing import Final

import msgspec

from harness.database.simulated.hub import Hub
from harness.database.simulated.tables import Customers, OutputRow, SimulatedTables, StoredDeadLetter
from harness.database.simulated.tape import MemoryRecorder, Tape, missing_of
from harness.engine.canaries import refuse_blindness, refuse_overlooked
from harness.engine.level import RunRecord
from harness.history.event import Abort, Ack, Event, FaultEvent, In, Retire
from harness.history.header import Header, parse_header
from harness.judge.canaries.canary import Canary, write_canary
from harness.judge.checkers.judge import judge
from harness.levels.sim.place import count_tables, read_tables
from harness.levels.sim.run import Simulated, simulate_scenario
from harness.scenario.claims import AUDIT, DEAD_LETTERS
from harness.scenario.model import Scenario
from harness.scenario.order import Order
from harness.scenario.outcome import WorldDescription
from harness.system.choices import Draw
from harness.system.errors import HarnessError
from harness.system.json_types import JsonView

_LEVEL: Final = "sim"
_LIMIT: Final = 1_000_000
"""The limit of the hub that times the canaries, in ms and in steps; no actor runs there."""
_WORLD: Final = WorldDescription(kind="simulated", why="a canary", server="", proxy="", ready_s=0.0)
_SEEDS: Final = (7, 8)
"""What a coordinator notes."""


@cache
def refuse_blind_simulation() -> None:
    """Judge the canaries, once in each process, and refuse to go on if one is not convicted.

    Raises HarnessError if level sim overlooks a canary, invents evidence or does not follow the seed.
    """
    refuse_overlooked(carried, level=_LEVEL)
    first, other = _SEEDS
    run = _short_run(first)
    missed = []
    if any(event.evidence for event in run.events if type(event) is FaultEvent and event.phase == "end"):
        missed.append("of a fault that acted on nothing")
    if _bytes_of(run) != _bytes_of(_short_run(first)):
        missed.append("of a seed that gives one run")
    another = _short_run(other)
    if _keys_of(run) == _keys_of(another):
        missed.append("of another seed, which gives other records")
    if _course_of(run) == _course_of(another):
        missed.append("of another seed, which gives another run")
    tape = another.tape
    last = tape.events.pop()
    misses_a_number = not missing_of(tape)
    tape.events.append(last)
    tape.made.append((0, 0, 1, len(tape.events)))  # an attempt that has counted an event
    if misses_a_number or not missing_of(tape):
        missed.append("of an event that was not recorded")
    refuse_blindness(missed, level=_LEVEL)


# A forked process judges by itself, so it begins with the canaries too.
os.register_at_fork(after_in_child=refuse_blind_simulation.cache_clear)


# ------------------------------------------------------------------------------------ recorded histories


def carried(canary: Canary) -> RunRecord:
    """The record of a simulated run that left this canary's events and rows."""
    place = _Place()
    write_canary(canary, place)
    for table in canary.unread:
        place.tables.unreadable[table] = None
    names = canary.header.get("tables", {})
    read_tables(place.tables, place.tape, names=names)
    return RunRecord(
        header=_header(msgspec.json.encode(canary.header)),
        events=place.tape.events,
        whole=place.tape.numbered == len(place.tape.events),
        error=None,
        ran_us=0,
        world=_WORLD,
        faults=(),
        accounting=count_tables(place.tables, ordered=False) if names else {},
        judge=judge,
    )


@cache
def _header(text: bytes) -> Header:
    """The header of some canaries; most have one of a few."""
    header = parse_header(msgspec.json.decode(text))
    if not isinstance(header, Header):
        raise HarnessError(f"its header breaks the format: {'; '.join(header)}")
    return header


class _Place:
    """A `CanaryPlace`: a tape and the tables of a simulated server. Mutable."""

    def __init__(self) -> None:
        self._hub = Hub(Draw(0, "canaries"), limit_ms=_LIMIT, steps_max=_LIMIT)
        self.tape = Tape(self._hub)
        self.tables = SimulatedTables(subtasks=1, customers=Customers([]))

    def go_on(self, t_us: int) -> None:
        self._hub.now_ms = t_us // 1000

    def log(self, subtask: int, attempt: int) -> MemoryRecorder:
        del subtask, attempt
        return MemoryRecorder(self.tape)

    def note(self, event: Event) -> None:
        if isinstance(event, Abort | Ack | Retire):  # as the coordinator does
            own = {name: getattr(event, name) for name in ("s", "a", "c") if hasattr(event, name)}
            self.tape.note(type(event), **own)
        else:
            self.tape.add(msgspec.structs.replace(event, n=self.tape.n, t=self.tape.t))

    def store(self, table: str, row: JsonView) -> None:
        stamp = {"subtask": row.get("s", 0), "epoch": row.get("c", 1), "token": row["token"]}
        if table == DEAD_LETTERS:
            letter = StoredDeadLetter(seq=row["seq"], id=row["id"], error=row["error"], **stamp)
            self.tables.dead_letter.append(letter)
        else:
            rows = self.tables.audit if table == AUDIT else self.tables.output
            rows.append(OutputRow(seq=row["seq"], id=row["id"], j=row["j"], v=json.dumps(row["v"]), **stamp))


# ------------------------------------------------------------------------------------------- short runs


def _short_run(seed: int) -> Simulated:
    return simulate_scenario(Order(scenario=_quiet_scenario(), level=_LEVEL, seed=seed))


@cache
def _quiet_scenario() -> Scenario:
    """Two records, one second apart; a fault of the lookups acts while nothing is on its way."""
    return Scenario.model_validate(
        {
            "scenario": "canary",
            "about": "A fault that acts on nothing.",
            "levels": [_LEVEL],
            "operator": {"mode": "ordered", "timeout": "5s"},
            "workload": {"records": 2, "subtasks": 1, "rate": "1/s", "service": "0ms", "checkpoint_every": 1},
            "faults": [
                {"id": "idle", "do": "latency", "link": "lookups", "delay": "50ms", "when": {"at": "500ms"},
                 "for": "100ms"},
            ],
            "decisive": ["V8"],
            "budget": "60s",
        }
    )  # fmt: skip


def _keys_of(run: Simulated) -> list[object]:
    return [event.key for event in run.events if type(event) is In]


def _course_of(run: Simulated) -> list[tuple[type, int]]:
    """When what happened; the lookups take no time of their own, so only links and schedule decide it."""
    return [(type(event), event.t) for event in run.events]


def _bytes_of(run: Simulated) -> bytes:
    return msgspec.json.encode(list(run.events))
