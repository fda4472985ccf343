"""Level `job`: a user's own job as the system under test, run unmodified and judged from outside.

Invariants: what can be known to be wrong with a job, its files and its scenario is told before anything starts; the
calm twin is run once for all runs of a campaign that share job, input and world; after a run nothing of a job is left.
"""

from __future__ import annotations

import inspect
import json
import shutil
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field, replace
from itertools import pairwise
from threading import Lock
from typing import ClassVar, Final, Literal, cast

from harness.database.endpoint import KeptConnection
from harness.database.own_tables import OwnTableRows
from harness.engine.canaries import refuse_blindness
from harness.engine.level import Opening, OutsideRecord, RunSite, refuse_in_world
from harness.history.verdict import Outcome
from harness.judge.canaries.canary import canaries, overlooked
from harness.judge.checkers.outside.judge import judge_outside
from harness.judge.checkers.outside.slots import told_values
from harness.levels.job.environment import MARK, inherited, refuse_templates
from harness.levels.job.finished import ExpectedRows
from harness.levels.job.job_database import AUDIT, INBOX
from harness.levels.job.job_file import JobFile, SinkTable, of_keys_breaches
from harness.levels.job.job_pitfalls import VALUE_CUT
from harness.levels.job.job_run import BrokenByCalm, CalmRun, JobDoesNotWork, JobRun, JobSetup, Pace
from harness.levels.job.job_setup import prepared_ground, read_files
from harness.levels.job.order import JobOrder
from harness.levels.job.outside_record import record_of
from harness.levels.job.records import JobInput, SourceRecord, StatedRecord, read_input
from harness.levels.job.sink_rows import SinkRow, as_keys, by_id, id_text, told_value
from harness.levels.job.sources import source_of
from harness.levels.job.spark_engine import find_checkpoints
from harness.levels.job.traffic import requests_over
from harness.levels.job.unmet import refuse_unmet, refuse_unmet_by_calm
from harness.sut.registry import load_attribute
from harness.sut.user_code import take_path
from harness.system.clock import Deadline
from harness.system.errors import CannotHere, SutError, UsageError, WorldError
from harness.world.world import World

_CALL = (
    "import importlib, sys; sys.path.insert(0, {folder!r}); "
    "getattr(importlib.import_module({module!r}), {name!r})()"
)


def command_of(order: JobOrder) -> Sequence[str]:
    """The words that start the job. Raises UsageError if the command is not found."""
    job = order.job
    if job.job.command is None:
        module, _, name = str(job.job.callable).partition(":")
        return [sys.executable, "-c", _CALL.format(folder=str(job.folder), module=module, name=name)]
    program, *rest = job.job.command
    path = inherited(order.environment).get("PATH")
    beside = job.folder / program
    found = str(beside) if "/" in program and beside.is_file() else shutil.which(program, path=path)
    if found is None:
        message = f"the job's command {program} was not found: it is neither on the PATH nor in {job.folder}"
        raise UsageError(message, fix="correct `command`; it is a list of words, and no shell is in between")
    return [found, *rest]


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLevel:
    """Implements `Level`."""

    name: ClassVar[str] = "job"
    needs_world: ClassVar[bool] = True
    in_threads: ClassVar[bool] = True
    repeatable: ClassVar[bool] = False

    def refuse(self, order: JobOrder) -> None:
        """Raises UsageError for what is wrong with the job's command, files, templates, source or records."""
        command_of(order)
        refuse_templates(order.job)
        read_files(order)
        source_of(order.job)
        given = read_input(order.job, order.scenario, seed=order.drawn_by)
        if order.named and not order.calm_only:
            refuse_unmet(order.job, order.scenario, given)
        for breach in of_keys_breaches(order.job):  # the command line may have changed the file's claims
            raise UsageError(breach.say, fix=breach.hint)
        if expect_from(order) == "given":
            take_path(order.import_path)
            load_attribute(order.job.claims.expected, option="claims.expected", kind="FUNCTION")

    def refuse_blindness(self, world: World | None) -> None:
        """See `Level`: the judge is shown small histories of jobs."""
        assert world is not None, "level job needs a world"
        refuse_blindness(list(overlooked(judge_outside, canaries("jobs"))), level=self.name)

    @contextmanager
    def open(self, opening: Opening) -> Iterator[JobPlays]:
        """Runs that share their calm twins."""
        yield JobPlays(opening=opening)


@dataclass(slots=True, kw_only=True)
class JobPlays:
    """Makes the runs of a campaign. Mutable: keeps the calm twins."""

    opening: Opening
    kind: Callable[..., JobRun] = JobRun
    """Makes a run."""
    _calm: dict[str, CalmRun] = field(default_factory=dict)
    _calm_runs: int = 0
    _second: dict[str, Mapping[str, str]] = field(default_factory=dict)
    """What the second calm twin has otherwise than the first, by the first one's run."""
    _lock: Lock = field(default_factory=Lock)

    def __call__(self, order: JobOrder, site: RunSite) -> OutsideRecord:
        world = site.world
        assert world is not None, "level job needs a world"
        refuse_in_world(order.scenario, world.lacks)
        given = read_input(order.job, order.scenario, seed=order.drawn_by)
        if not order.calm_only:
            refuse_unmet(order.job, order.scenario, given)
        command = None if site.limit_s is None else Deadline(site.limit_s)
        calm = self._calm_twin(order, given, site, world)
        if calm.broken is not None:
            return calm.broken.of(order)
        order = replace(order, job=calm.run.order.job)
        site = site if command is None else replace(site, limit_s=command.left_s)
        source = cast("Literal['given', 'calm', 'none']", expect_from(order))
        if order.calm_only:
            if order.job.sink.rows != "key":
                calm.run.recording.expect({} if source == "none" else calm.expected)
            return record_of(calm.run, expect_from=source)
        refuse_unmet_by_calm(order, calm)
        site.observer.phase("run", f"{order.scenario.scenario}, seed {order.seed}")
        run = self._made_run(order, given, site, world, calm=calm)
        unsteady: Mapping[str, str] = {}
        if source == CALM and run.readings and _apart(run, calm.expected) and not run.cut_off:
            unsteady = self._unsteady(order, given, site, world, calm)
        return record_of(run, expect_from=source, unsteady=unsteady)

    def _unsteady(
        self, order: JobOrder, given: JobInput, site: RunSite, world: World, calm: CalmRun
    ) -> Mapping[str, str]:
        """What a second calm twin, with a fresh state, has otherwise: a sentence for each id, by its text.

        It runs once a command, and only when the table of a run is not that of the first: before a fault is blamed.
        So a sweep in which nothing is wrong pays nothing.
        """
        with self._lock:
            if (found := self._second.get(calm.run.run_id)) is None:
                site.observer.phase("calm", f"{order.sut} runs without faults once more, with a fresh state")
                again = self._made_run(order, given, site, world, calm=None, again=True)
                found = _apart(again, calm.expected) if again.how is not None and again.readings else {}
                self._second[calm.run.run_id] = found
        return found

    def calm_twin(self, order: JobOrder, site: RunSite) -> CalmRun:
        """The calm twin of this order."""
        assert site.world is not None, "level job needs a world"
        given = read_input(order.job, order.scenario, seed=order.drawn_by)
        calm = self._calm_twin(order, given, site, site.world)
        if calm.broken is not None:
            calm.broken.of(order)
        return calm

    def _calm_twin(self, order: JobOrder, given: JobInput, site: RunSite, world: World) -> CalmRun:
        """The twin that this order shares with others; it is run now, if it was not before."""
        scenario = order.scenario
        name = repr(
            (
                order.job,
                order.drawn_by,
                scenario.records,
                scenario.keys,
                scenario.keys_come,
                scenario.offer,
                scenario.lookups_from,
                world.direct,
            )
        )
        with self._lock:
            if name not in self._calm:
                site.observer.phase("calm", f"{order.sut} runs without faults")
                self._calm[name] = self._made_calm(order, given, site, world)
                facts, empty = self._calm[name].facts, len(self._calm[name].without_row)
                site.observer.phase(
                    "calm",
                    f"first row after {facts['first_row_ms']} ms, done after {facts['took_s']} s, "
                    f"{facts['messages']} messages to the sink, {facts['commits']} COMMITs"
                    + (f"; {empty} of {len(given.records)} records yield no row" if empty else ""),
                )
            return self._calm[name]

    def _made_calm(self, order: JobOrder, given: JobInput, site: RunSite, world: World) -> CalmRun:
        """A calm run. If it shows that rows are of keys, and the job file says nothing, it is one that knows that.

        Ids that differ from one calm run to the other (a UUID) are no keys, and none of a record either.
        """
        run = self._made_run(order, given, site, world, calm=None)
        found = _as_keys(run)
        if found is None:
            return calm_of(run)
        job, says = found
        if order.job.sink.rows is not None or next(of_keys_breaches(job), None) is not None:
            return calm_of(run, hint=f"; {says}")
        site.observer.phase("calm", says)
        again = self._made_run(replace(order, job=job), given, site, world, calm=None, again=True)
        tables = [
            {text: sorted(repr(row.v) for row in rows) for text, rows in _rows_by_id(one, job.sink).items()}
            for one in (run, again)
            if one.readings and one.seen.columns is not None
        ]
        if len(tables) > 1 and tables[0] != tables[1]:
            return calm_of(run)
        return calm_of(again, keyed=f"{says[0].upper()}{says[1:]}; this run was judged so.")

    def _made_run(
        self,
        order: JobOrder,
        given: JobInput,
        site: RunSite,
        world: World,
        *,
        calm: CalmRun | None,
        again: bool = False,
    ) -> JobRun:
        """One run in a database of its own; `calm`: the twin of a run with faults; `again`: it is a second twin."""
        del again  # where nothing repeats, it is another run by itself
        run_id = f"{site.run_id}-calm{self._calm_runs or ''}" if calm is None else site.run_id
        self._calm_runs += calm is None
        self.opening.note_mark(f"{MARK}={run_id}")
        world.proxy.reseed(order.seed)
        run = self.kind(
            order=order,
            given=given,
            site=site,
            world=world,
            run_id=run_id,
            command=command_of(order),
            note_process=self.opening.note_process,
            calm=calm,
            why_no_further_start="" if calm is None else _why_no_further_start(order, calm),
            notes=[] if calm is None or not calm.keyed else [calm.keyed],
        )
        with prepared_ground(
            run, folder=site.folder / (run_id.removeprefix(f"{site.run_id}-") if calm is None else "job")
        ):
            if calm is not None:
                run.expected = {} if expect_from(order) == NO_VALUES else calm.expected
                run.keys = calm.keys
            elif expect_from(order) == "given" and order.job.sink.rows == "key":
                run.expected, run.keys = stated_table(order, given, run.ground)
            elif expect_from(order) == "given":
                run.expected = stated(order, given, run.ground)
            run.run()
        return run


def _why_no_further_start(order: JobOrder, calm: CalmRun) -> str:
    """Why the finished job is not started once more; empty: it is."""
    if order.job.claims.delivery == "at-least-once":
        return "The finished job was not started once more: at-least-once allows that it writes again."
    if not calm.keeps_state:
        return "The finished job was not started once more: no file and no other table holds its position."
    return ""


CALM: Final = "calm"
NO_VALUES: Final = "none"
_FIX: Final = (
    "write `def expected(record, rows): ...`, which returns a list of dicts by column, or of lists in the order of"
    " `values`"
)
_FIX_TABLE: Final = (
    "write `def expected(records): ...`, or `(records, rows)`, which returns a list of dicts by column; `rows` has"
    " those to look up, by key"
)


def expect_from(order: JobOrder) -> str:
    """The header's `expect_from`."""
    name = order.job.claims.expected
    return name if name in {CALM, NO_VALUES} else "given"


def stated(order: JobOrder, given: JobInput, ground: JobSetup) -> ExpectedRows:
    """What the user's function states of each record. Raises SutError if it cannot be used."""
    name = order.job.claims.expected
    function = load_attribute(name, option="claims.expected", kind="FUNCTION")
    rows = _rows_of_keys(given, ground)
    return {
        id_text(record.id): _values(name, function, record, rows, order.job.sink.values)
        for record in given.records
        if not record.fails
    }


def _rows_of_keys(given: JobInput, ground: JobSetup) -> Mapping[str, Sequence[object]]:
    """The rows to look up, by the text of their key."""
    with KeptConnection(ground.database.root) as kept:
        found = OwnTableRows(kept.opened()).by_key(record.key for record in given.records)
    return {str(key): rows for key, rows in found.items()}


def stated_table(
    order: JobOrder, given: JobInput, ground: JobSetup
) -> tuple[ExpectedRows, Mapping[str, object]]:
    """The whole table that the user's function states of all records, by key. Raises SutError if it cannot be used."""
    name, sink = order.job.claims.expected, order.job.sink
    function = load_attribute(name, option="claims.expected", kind="FUNCTION")
    records = [record.stated for record in given.records if not record.fails]
    asked: list[object] = [records]
    if len(inspect.signature(function).parameters) > 1:
        found = _rows_of_keys(given, ground)
        asked.append({record.key: list(found.get(str(record.key), ())) for record in given.records})
    try:
        with redirect_stdout(sys.stderr):  # standard output is for the results of a command
            told = function(*asked)
        told = told_value(json.loads(json.dumps(told, allow_nan=False, default=told_value)))
    except (Exception, SystemExit) as error:
        message = f"claims.expected {name} fails: {type(error).__name__}: {error}"
        raise SutError(message, fix=_FIX_TABLE) from error
    rows: dict[str, list[list[object]]] = {}
    ids: dict[str, object] = {}
    for row in told if isinstance(told, list) else [told]:
        wanted = [*sink.id, *sink.values]
        if not (isinstance(row, dict) and all(column in row for column in wanted)):
            message = f"claims.expected {name} states {row!r}, and a row of the table has {', '.join(wanted)}"
            raise SutError(message, fix=_FIX_TABLE)
        parts = [row[column] for column in sink.id]
        text = id_text(parts[0] if len(parts) == 1 else parts)
        ids[text] = parts[0] if len(parts) == 1 else parts
        rows.setdefault(text, []).append([row[column] for column in sink.values])
    return rows, ids


def _as_keys(run: JobRun) -> tuple[JobFile, str] | None:
    """The job file with rows of keys, and why, if a calm run shows that its rows are not one record's."""
    job, columns = run.order.job, run.seen.columns
    if job.sink.rows == "key" or expect_from(run.order) != CALM or run.cut_off or columns is None:
        return None
    if not run.readings or run.numbered.intersection(
        job.sink.id
    ):  # the server's numbers have gaps after a fault
        return None
    keys = {id_text(record.id): record.key for record in run.given.records}
    found = as_keys(job.sink, columns, run.seen.transactions, unique=run.key_columns, keys=keys)
    if found is None:
        return None
    sink, why = found
    says = (
        f'the rows of {sink.table} are not one record\'s: {why}; `rows = "key"` fits: in [sink] write'
        f' rows = "key", id = {json.dumps(sink.id)}, values = {json.dumps(sink.values)}'
    )
    return job.model_copy(update={"sink": sink}), says


def _values(
    name: str,
    function: Callable[[StatedRecord, list[object]], object],
    record: SourceRecord,
    rows: Mapping[str, Sequence[object]],
    columns: Sequence[str],
) -> list[list[object]]:
    try:
        with redirect_stdout(sys.stderr):  # standard output is for the results of a command
            told = function(record.stated, list(rows.get(str(record.key), ())))
        told = told_value(json.loads(json.dumps(told, allow_nan=False, default=told_value)))
    except (Exception, SystemExit) as error:
        message = f"claims.expected {name} fails for record {record.id}: {type(error).__name__}: {error}"
        raise SutError(message, fix=_FIX) from error
    if not isinstance(told, list):
        message = f"claims.expected {name} returned {type(told).__name__} for record {record.id}"
        raise SutError(message, fix=_FIX)
    return [_row(name, record, one, columns) for one in told]


def _row(name: str, record: SourceRecord, told: object, columns: Sequence[str]) -> list[object]:
    match told:
        case dict() if all(column in told for column in columns):
            return [told[column] for column in columns]
        case list() if len(told) == len(columns):
            return list(told)
        case _ if len(columns) == 1 and not isinstance(told, dict | list):
            return [told]
    message = (
        f"claims.expected {name} states {told!r} for record {record.id}, and sink.values is {list(columns)}"
    )
    raise SutError(message, fix=_FIX)


_TLS_IS_OFF: Final = "usessl=false"
"""A part of the JDBC URL that the job gets; a job may print it."""


def _rows_by_id(run: JobRun, sink: SinkTable) -> Mapping[str, Sequence[SinkRow]]:
    """The rows that the last reading of a calm run shows."""
    assert run.seen.columns is not None, "the table was there"
    columns = replace(run.seen.columns, sink=sink)
    return by_id(columns.row(row) for row in run.readings[-1].tables.get(sink.table, ()))


def _apart(run: JobRun, expected: ExpectedRows) -> Mapping[str, str]:
    """For each id, by its text, whose rows in the first reading are not the expected ones, a sentence with both."""
    if run.seen.columns is None:
        return {}
    sink, found = run.order.job.sink, {}
    shown = by_id(run.seen.columns.row(row) for row in run.readings[0].tables.get(sink.table, ()))
    noun = "key" if sink.rows == "key" else "record"
    for text in {**expected, **shown}:
        have, wanted = (
            [list(row.v) for row in shown.get(text, ())],
            [list(v) for v in expected.get(text, ())],
        )
        if sorted(map(repr, have)) != sorted(map(repr, wanted)):
            both = [
                ", ".join(told_values(sink.values, row) for row in rows) or "no row"
                for rows in (wanted, have)
            ]
            found[text] = f"without any fault {noun} {text} had {both[0]} in one run and {both[1]} in another"
    return found


def calm_of(run: JobRun, *, hint: str = "", keyed: str = "") -> CalmRun:
    """What a run without faults shows. Raises WorldError if the job did nothing, CannotHere if it was cut off.

    `hint`: what to add where the run breaks a claim of the job; `keyed`: as of `CalmRun`.
    """
    order, rows_us, expected = run.order, run.seen.row_times, run.expected
    if run.cut_off:
        if run.site.stop.is_set():
            raise KeyboardInterrupt
        raise CannotHere(f"{run.cut_off}, which was its calm twin", fix="give a longer --budget")
    if run.how is None:
        raise _does_not_work(run, f"{run.gave_up}{_elsewhere(run)}{hint}")
    if run.log.broken:
        message = f"the database's log of changes cannot be read: {run.log.broken}"
        raise WorldError(message, fix="floodmark doctor shows what the world lacks")
    if not rows_us or run.seen.columns is None or not run.readings:
        raise _does_not_work(run, f"it ended, and no row is in table {order.job.sink.table}{_elsewhere(run)}")
    if not requests_over(run.faults.traffic.messages, "sink"):
        why = "it wrote rows, and the proxy saw no message of it: it speaks TLS or compresses, or goes past the proxy"
        raise _does_not_work(run, why)
    if run.how == "exit" and run.writes_after_exit:
        why = "its main process exited with code 0, and another process of it went on writing: run it in the foreground"
        raise _does_not_work(run, why)
    gaps = [later - earlier for earlier, later in pairwise(rows_us)]
    pace = Pace(
        first_row_us=max(0, rows_us[0] - run.began_us),
        gap_us=max(gaps, default=0),
        took_us=max(0, run.ended_us - run.began_us),
        work_us=rows_us[-1] - rows_us[0],
    )
    of_ids = _rows_by_id(run, order.job.sink)
    found = {text: [list(row.v) for row in same] for text, same in of_ids.items()}
    of_keys = order.job.sink.rows == "key"
    wanted = expected if expected is not None else {text: found.get(text, []) for text in run.offered_ids}
    if of_keys and expected is None:
        wanted, run.keys = found, {text: same[0].id for text, same in of_ids.items()}
        run.recording.expect_keys((row.id, row.v) for same in of_ids.values() for row in same)
    not_state = {order.job.sink.table, order.job.sink.dead_letters, AUDIT, INBOX}
    changes = [change for one in run.seen.transactions for change in one.changes]
    twin = CalmRun(
        pace=pace,
        expected=wanted,
        keys=run.keys,
        keyed=keyed,
        messages=tuple(run.faults.traffic.messages),
        keeps_files=run.has_files,
        keeps_tables=any(change.table not in not_state for change in changes),
        batches=max((one.batches for one in find_checkpoints(run.ground.state)), default=0),
        run=run,
    )
    run.calm = twin
    run.notes += [keyed] if keyed else []
    run.calm = twin = replace(twin, broken=_broken(twin, hint))
    return twin


def _broken(twin: CalmRun, hint: str) -> BrokenByCalm | None:
    """The claim of the job that the calm run breaks."""
    own: Literal["calm", "none"] = "calm" if twin.run.order.job.sink.rows == "key" else "none"
    record = record_of(twin.run, expect_from=own if twin.run.expected is None else "given")
    judgement = record.judge(record.header, record.events)
    if judgement.outcome is not Outcome.FAIL:
        return None
    wrong = next(one for one in judgement.invariants if one.outcome is Outcome.FAIL)
    first = f": {wrong.anomalies[0].say}" if wrong.anomalies else ""
    first += "".join(f"; {one.says.rstrip('.')}" for one in record.pitfalls or () if one.name == VALUE_CUT)
    error = _does_not_work(twin.run, f"without any fault {wrong.invariant} fails{first}{hint}")
    is_stated = expect_from(twin.run.order) == "given"
    is_the_jobs = all(
        invariant != "V8" or (is_stated and kind == "wrong-value") for invariant, kind in judgement.violations
    )
    return BrokenByCalm(error=error, record=record if is_the_jobs and not hint else None)


def _elsewhere(run: JobRun) -> str:
    """What it wrote to other tables."""
    sink = run.order.job.sink
    counts: dict[str, int] = {}
    for transaction in run.seen.transactions:
        for change in transaction.changes:
            if change.op == "insert" and change.table not in {sink.table, AUDIT, INBOX}:
                counts[change.table] = counts.get(change.table, 0) + 1
    if not counts or run.seen.row_times:
        return ""
    told = ", ".join(f"{table} ({count} rows)" for table, count in counts.items())
    return f"; it wrote to {told}: should [sink] name that table?"


def _does_not_work(run: JobRun, why: str) -> JobDoesNotWork:
    words = run.last_words()
    said, hint = words.lower().replace(_TLS_IS_OFF, ""), ""
    if run.seen.row_times:
        hint = "; if it is only slow here, give it more time: --set budget=5m"
    elif "ssl" in said or "tls" in said:
        hint = "; the proxy has to read MySQL's packets, so TLS must be off in the job"
    if "eoferror" in said or "stdin" in said:
        hint = "; it asked for input, and there is no terminal: tell it by `env` in the job file"
    if "modulenotfounderror" in said:
        hint = (
            f"; it ran under {run.starts.command[0]}:"
            " if its packages are in another environment, name that one's `python` in `command`"
        )
    return JobDoesNotWork(
        f"the job does not work undisturbed: {why}; {words}", fix=f"mend the job first{hint}"
    )
