"""The canaries of the levels with processes: through a recorder's files and the merge, and through a real database.

Once a session a handful of rows is written by our sink into a database of its own, read as after a run, and read again
after a hand has altered one, taken one away and doubled one behind the harness's back (T9).
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Final, Self

import msgspec

from harness.database.audit import CommittedProgress
from harness.database.driver import MySqlDriver
from harness.database.endpoint import Endpoint, KeptConnection
from harness.database.epoch import Visible
from harness.database.schema import prepare_database, run_database
from harness.database.sink import EpochSink
from harness.database.stored_tables import ROWS_OF, StoredRow
from harness.database.table_editor import SqlTableHand
from harness.engine.canaries import refuse_blindness, refuse_overlooked
from harness.engine.findings import armed_lines, findings
from harness.engine.level import RunRecord
from harness.engine.perform import judged
from harness.engine.reading import Stored, event_of_row, history_of, read_stored
from harness.faults.real.witnesses import CLIENTS
from harness.history.event import Commit, Event, FaultEvent, TableRead
from harness.history.journal import EventLog, Journal
from harness.history.merge import read_leftovers
from harness.history.notes import LostConnection
from harness.history.recorder import HARNESS_FILE, Recorder, attempt_file
from harness.history.verdict import Outcome
from harness.judge.canaries.canary import Canary, canaries, write_canary
from harness.scenario.model import Scenario, Workload
from harness.scenario.outcome import WorldDescription
from harness.scenario.workloads.lookups import LookupSource
from harness.system.errors import HarnessError
from harness.system.json_types import JsonView
from harness.world.world import DATABASE, World

_NO_WORLD: Final = WorldDescription(kind="none", why="a canary", server="", proxy="", ready_s=0.0)
_SEEDS: Final = (7, 8)


def refuse_blind_world(world: World, *, level: str) -> None:
    """Raises HarnessError if the harness overlooks a canary in files or in the world's database."""
    refuse_blind_files(level=level)
    with tempfile.TemporaryDirectory() as folder:
        _refuse_blind_database(world, Path(folder), level=level)


def refuse_blind_files(*, level: str) -> None:
    """Raises HarnessError if the way from a recorder's files to the verdict overlooks a canary."""
    numbers = count(1)
    with tempfile.TemporaryDirectory() as folder:
        refuse_overlooked(lambda canary: carried(canary, Path(folder) / str(next(numbers))), level=level)
    missed = []
    first, again, other = (_drawn(seed) for seed in (_SEEDS[0], *_SEEDS))
    if first != again:
        missed.append("of a seed that gives one source")
    if first == other:
        missed.append("of another seed, which gives another source")
    with tempfile.TemporaryDirectory() as folder, _Place(Path(folder) / "raw") as place:
        if not place.has_gap_without(next(c for c in canaries("operator") if c.name == "honest stream")):
            missed.append("of a line that is missing in a file")
    if _witnesses_of_losses() != (CLIENTS,):
        missed.append("of a fault with one witness")
    refuse_blindness(missed, level=level)


# -------------------------------------------------------------------------------- what files are written


def carried(canary: Canary, folder: Path) -> RunRecord:
    """The record of a run that left this canary's events in files of a new `folder`, and its rows in tables."""
    with _Place(folder) as place:
        write_canary(canary, place)
        return place.record(canary, place.stored(canary))


class _Place:
    """A `CanaryPlace`: the files of a run's attempts and of the harness, timed by the canary. Mutable."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self._folder = folder
        self._stack = ExitStack()
        self._t_us = 0
        self._attempts: dict[tuple[int, int], EventLog] = {}
        self._faults: list[FaultEvent] = []
        self._rows: dict[str, list[Event]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @cached_property
    def _harness(self) -> Recorder:
        """Opened by the first event of the harness; most canaries have none."""
        return self._recorder(self._folder / HARNESS_FILE)

    def _recorder(self, path: Path) -> Recorder:
        return self._stack.enter_context(Recorder(path, now_us=lambda: self._t_us))

    def go_on(self, t_us: int) -> None:
        self._t_us = t_us

    def log(self, subtask: int, attempt: int) -> EventLog:
        path = attempt_file(self._folder, subtask=subtask, attempt=attempt)
        log = self._attempts[subtask, attempt] = self._recorder(path)
        return log

    def note(self, event: Event) -> None:
        match event:
            case Commit(s=s, a=int(a), c=checkpoint):
                Journal(self._attempts[s, a], subtask=s, attempt=a).committed(checkpoint)
            case FaultEvent():
                self._faults.append(event)
            case _:
                self._harness.write(event)

    def store(self, table: str, row: JsonView) -> None:
        text = row["error"] if "error" in row else msgspec.json.encode(row["v"]).decode()
        stored = StoredRow(
            seq=row["seq"], subtask=row.get("s", 0), id=row["id"], token=row["token"], epoch=row.get("c", 1),
            j=row.get("j"), text=text,
        )  # fmt: skip
        self._rows.setdefault(table, []).append(event_of_row(table, stored))

    def stored(self, canary: Canary) -> Stored:
        """The rows that were stored, as if they had been read from a database."""
        lines: list[Event] = []
        for table in ROWS_OF:
            rows = self._rows.get(table, [])
            lines += rows
            if table in canary.header.get("tables", {}) and table not in canary.unread:
                lines.append(TableRead(n=0, t=0, table=table, rows=len(rows)))
        return Stored(tables=lines, unread=(), progress=CommittedProgress(epochs=(), completed=()), counts={})

    def has_gap_without(self, canary: Canary) -> bool:
        """Whether a line taken from the middle of this canary's file is missed."""
        write_canary(canary, self)
        file = next(self._folder.glob("subtask-*.jsonl"))
        lines = file.read_bytes().splitlines(keepends=True)
        file.write_bytes(b"".join(lines[:3] + lines[4:]))
        return read_leftovers(self._folder).missing > 0

    def record(self, canary: Canary, stored: Stored) -> RunRecord:
        """The record of a run with this header, the files so far and these tables."""
        leftovers = read_leftovers(self._folder)
        header, events = history_of(canary.header, leftovers, self._faults, stored)
        return RunRecord(
            header=header,
            events=events,
            whole=not leftovers.missing,
            error=None,
            ran_us=0,
            world=_NO_WORLD,
            faults=(),
            accounting=stored.counts,
        )


# ------------------------------------------------------------------------------------------------- seeds


def _witnesses_of_losses() -> tuple[str, ...] | None:
    """Who is said to have seen a link that was down, if only a client lost its connection."""
    down = _DOWN.faults[0]
    lines = armed_lines(down)
    lost = LostConnection(t=lines[-1].t - 1000, a=1, link="lookups", code=2013)
    (record,) = findings(_DOWN, sorted([*lines, lost], key=lambda line: line.t))
    return record.witnesses


_DOWN: Final = Scenario.model_validate(
    {
        "scenario": "canary",
        "about": "A link that is down.",
        "operator": {"mode": "ordered", "timeout": "5s"},
        "workload": {"records": 2, "subtasks": 1, "rate": "1/s", "service": "5ms", "checkpoint_every": 1},
        "faults": [{"id": "down", "do": "down", "link": "lookups", "when": {"at": "500ms"}, "for": "1s"}],
        "decisive": ["V8"],
    }
)


def _drawn(seed: int) -> list[object]:
    source = LookupSource(
        workload=Workload.model_validate({"records": 8, "rate": "100/s"}), seed=seed, subtask=0
    )
    return [source[position] for position in range(len(source))]


# ------------------------------------------------------------------------------------- the real database


@dataclass(frozen=True, slots=True, kw_only=True)
class _Step:
    """Changes behind the harness's back before one reading, and what must be convicted then."""

    acts: tuple[tuple[str, str], ...]
    """(act, table); each at the first row that is there then."""
    shows: tuple[tuple[str, str], ...]

    @property
    def name(self) -> str:
        return ", ".join(f"{act} {table}" for act, table in self.acts)


_STEPS: Final[Sequence[_Step]] = (
    _Step(
        acts=(("delete", "output"), ("double", "output"), ("alter", "output"), ("delete", "dead_letter")),
        shows=(
            *(("V8", "row-missing"), ("V8", "row-doubled"), ("V8", "row-altered")),
            *(("V9", "row-deleted"), ("V9", "row-doubled"), ("V9", "row-altered")),
            ("V20", "row-missing"),
        ),
    ),
    _Step(acts=(("delete", "audit"),), shows=(("V9", "no-effect"),)),
)
"""Few readings, for each asks eleven questions on a connection of its own."""


def _refuse_blind_database(world: World, folder: Path, *, level: str) -> None:
    name = f"{DATABASE}_canaries"
    root = world.root.at(world.direct, name)
    missed: list[str] = []
    (written,) = canaries("database")
    with run_database(world.root.at(world.direct, ""), name=name), _Place(folder / "raw") as place:
        prepare_database(root, subtasks=1, rows=[])
        _write(written, world.app.at(world.direct, name))
        write_canary(written, place)
        untouched = judged(place.record(written, read_stored(root, ordered=False)))
        if untouched.outcome is not Outcome.PASS:
            missed.append("of untouched rows in the database")
        with KeptConnection(root) as kept:
            hand = SqlTableHand(kept)
            for step in _STEPS:
                for act, table in step.acts:
                    getattr(hand, act)(table)
                try:
                    shown = judged(place.record(written, read_stored(root, ordered=False))).violations
                except HarnessError as error:
                    missed.append(f"of the database, {step.name} ({error.what})")
                else:
                    missed += [] if set(step.shows) <= set(shown) else [f"of the database, {step.name}"]
    refuse_blindness(missed, level=level)


def _write(written: Canary, app: Endpoint) -> None:
    """Writes the outputs and dead letters of `written` as one epoch of our sink."""
    with closing(EpochSink(MySqlDriver(app), subtask=0)) as sink:
        sink.take_over(now_ms=0)
        for event in written.events:
            match event:
                case {"k": "out", "id": id_, "j": j, "v": value}:
                    sink.add(Visible(id=id_, j=j, value=value))
                case {"k": "res", "id": id_, "error": error}:
                    sink.write_dead_letter(id=id_, error=error)
                case {"k": "snap", "c": epoch, "pos": position}:
                    sink.commit(epoch, position=position, elements=[])
