"""One run of a job: its starts, what it is offered, the faults, and its end; with or without faults.

Answers to Jepsen's `run!` for a program that is not ours. Invariants: when it is over no process of the job is left and
every fault is healed, also after an error; every event is noted with its place in the log of changes; a table is read
when no start lives.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Final, NoReturn

import pymysql

from harness.database.endpoint import Endpoint
from harness.engine.level import OutsideRecord, RunSite
from harness.engine.two_servers import TwoServers
from harness.faults.model.fault import Fault
from harness.levels.job.binlog import ChangeLog, LogPosition
from harness.levels.job.environment import job_environment
from harness.levels.job.finished import (
    EndSignals,
    ExpectedRows,
    How,
    has_exited_well,
    how_finished,
    missing_records,
    needs_sentinels,
    wrong_keys,
)
from harness.levels.job.job_database import INBOX, JobDatabase, TableFacts, TableReading
from harness.levels.job.job_faults import JobFaults
from harness.levels.job.offering import Offering
from harness.levels.job.order import JobOrder
from harness.levels.job.processes import JobExitSeen, JobStarts
from harness.levels.job.recording import JobRecording
from harness.levels.job.records import JobInput
from harness.levels.job.sessions import SessionsFollowed
from harness.levels.job.sink_rows import SinkReplay, id_text
from harness.levels.job.sources import JobSource
from harness.levels.job.spark_engine import find_checkpoints, is_spark, spark_is_behind
from harness.levels.job.statement_log import SentStatement, StatementLog, keys_asked_for
from harness.levels.job.table_watch import TableWatch, as_replay, note_tables
from harness.levels.job.traffic import Message, Traffic, noted, requests_over
from harness.scenario.outcome import FaultRecord
from harness.system.clock import Deadline, monotonic_us, pause
from harness.system.errors import WorldError
from harness.world.standalone_cluster import find_executors
from harness.world.world import World

_QUIET_MIN_US: Final = 300_000
_RECOVER_MIN_US: Final = 5_000_000
_POLL_S: Final = 0.02
_CALM_TIMES: Final = 3
"""How many times a scenario's budget the calm twin may take."""
_SLOW_TIMES: Final = 6
"""How many times the calm twin's time is added to the budget of a run."""
_ADVANCE_EVERY_US: Final = 30_000
"""The proxy is asked what it saw no more often than that."""
_LOOK_AT_TABLE_US: Final = 500_000
_TELL_EVERY: Final = 20
_HEARTBEAT_US: Final = 15_000_000
_LOOK_FOR_SPARK_EVERY: Final = 100
_BACK_OFF_S: Final = (0.0, 0.2, 0.5, 1.0, 2.0)
_SHORT_LIFE_S: Final = 1.0
_CATCH_UP_S: Final = 30.0
_FURTHER_S: Final = 20.0
_DROPPED: Final = (
    "The finished job was not started once more: its own end emptied its state folder, so that it would do all again,"
    ' and no supervisor starts a finished job again. If it never ends (`ends = "settles"`), it is started once more.'
)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSetup:
    """What is there before the first start."""

    database: JobDatabase
    source: JobSource
    links: Mapping[str, Endpoint]
    """`sink` and `lookups`, as the job reaches them."""
    state: Path
    state_made_ns: int
    """When its state folder was last changed before it began, by the file system's clock."""
    done: Path
    logs: Path
    cluster: str | None
    """The address of the Spark master; None: the run has no cluster."""
    lookup_tables: Sequence[str]
    second: TwoServers | None = None
    """None: there is one server."""

    @property
    def has_made_state(self) -> bool:
        """Whether the job has made anything in its state folder, though it may be gone again."""
        return self.state.stat().st_mtime_ns > self.state_made_ns


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How fast the job is without faults, in microseconds."""

    first_row_us: int
    """From its start to its first row."""
    gap_us: int
    """The longest time between two transactions."""
    took_us: int
    """From its start to its end."""
    work_us: int = 0
    """From its first row to its last."""

    @property
    def quiet_us(self) -> int:
        """After so much silence a working job would have written."""
        return max(_QUIET_MIN_US, 3 * self.gap_us)

    @property
    def recover_us(self) -> int:
        """How long it may take to go on after a fault."""
        return max(_RECOVER_MIN_US, 3 * self.took_us)


@dataclass(slots=True, kw_only=True)
class JobRun:
    """One run of a job, with its starts. Mutable: keeps everything that is seen of it."""

    order: JobOrder
    given: JobInput
    site: RunSite
    world: World
    run_id: str
    command: Sequence[str]
    note_process: Callable[[int], None]
    calm: CalmRun | None = None
    """The twin by whose pace and table it is judged; None: this is the twin, and it has not ended."""
    expected: ExpectedRows | None = None
    """None: not known yet."""
    keys: Mapping[str, Any] = field(default_factory=dict)
    """Where rows are of keys: each key in `expected` as a history tells it, by its text."""
    why_no_further_start: str = ""
    """Why a run with faults is not started once more when it is done; empty: it is."""
    ground: JobSetup = field(init=False)
    how: How | None = None
    """Rule by which the job counted as finished; None: unfinished."""
    gave_up: str = ""
    cut_off: str = ""
    """Why it was ended, if the job is not to blame: an interrupt, or the command's own budget."""
    exits: list[JobExitSeen] = field(default_factory=list)
    readings: list[TableReading] = field(default_factory=list)
    statements: Sequence[SentStatement] = ()
    """What the server's general log tells of the starts before the further one."""
    table_statement: str = ""
    """Of a calm run: the statement that makes the job's table; empty: the job's schema did."""
    key_columns: Sequence[str] = ()
    """Of a calm run: the columns of the table's primary or first unique key."""
    numbered: frozenset[str] = frozenset()
    """Of a calm run: the columns that the server numbers by itself."""
    notes: list[str] = field(default_factory=list)
    """What limits the meaning of a pass, a sentence each."""
    began_us: int = 0
    """When it was started first."""
    ended_us: int = 0
    has_driver: bool = False
    """Whether a driver of Spark was among the processes of a calm run."""
    has_executors: bool = False
    """Whether executors of Spark were among them, beside the driver."""
    seen: TableWatch = field(init=False)
    recording: JobRecording = field(init=False)
    starts: JobStarts = field(init=False)
    sessions: SessionsFollowed = field(init=False)
    log: ChangeLog = field(init=False)
    offering: Offering = field(init=False)
    faults: JobFaults = field(init=False)
    records: Sequence[FaultRecord] = ()
    """What became of the faults."""
    _saved_at_kill: list[bool] = field(default_factory=list)
    """For each kill by a fault, whether there was saved state."""
    _looked_us: int = 0
    _looked_at: SinkReplay | None = None
    _advanced_us: int = 0
    _told_us: int = 0
    _start_us: int | None = None
    _restart_us: int | None = None
    _exited_well_us: int | None = None

    @property
    def is_calm(self) -> bool:
        """Whether it is the calm twin."""
        return self.calm is None or self.calm.run is self

    @property
    def pace(self) -> Pace | None:
        """Of the calm twin; None: it is not known yet."""
        return None if self.calm is None else self.calm.pace

    @property
    def planned(self) -> Sequence[Fault]:
        """The faults to inject."""
        return () if self.is_calm else self.order.scenario.faults

    @property
    def limit_s(self) -> float:
        budget_s = self.order.scenario.budget / 1000
        return (
            budget_s * _CALM_TIMES if self.pace is None else budget_s + _SLOW_TIMES * self.pace.took_us / 1e6
        )

    @property
    def writes_after_exit(self) -> bool:
        """Whether the table changed behind the place of the log at which the last exit was seen."""
        exits = [at for _, at, kind, _ in self.recording.told() if kind == "exit"]
        return bool(exits) and self.seen.is_written_after(exits[-1])

    @property
    def has_files(self) -> bool:
        """Whether there is a file in its state folder, at any depth."""
        return any(files for _, _, files in os.walk(self.ground.state))

    @property
    def offered(self) -> int:
        """How many records were offered."""
        return self.offering.offered

    @property
    def offered_ids(self) -> Sequence[str]:
        """The text of the id of each record that is not meant to fail."""
        return [id_text(record.id) for record in self.given.records if not record.fails]

    @property
    def ids(self) -> Mapping[str, Any]:
        """The ids that rows should have, by their text: of the records, or the keys in `expected`."""
        of_keys = self.order.job.sink.rows == "key"
        rounds = (self.given.records, *self.given.sentinels)
        return self.keys if of_keys else {id_text(one.id): one.id for some in rounds for one in some}

    def keyed_rows(self) -> Iterator[tuple[Any, Sequence[object]]]:
        """Where rows are of keys: each expected row, with its key as a history tells it."""
        for text, rows in (self.expected or {}).items():
            yield from ((self.keys[text], values) for values in rows)

    def last_words(self) -> str:
        """The last lines that the newest start with any output printed, without the world's passwords."""
        words = self.starts.last_words()
        for secret in (self.world.app.password, self.world.root.password):
            words = words.replace(secret, "***")
        return words

    # -------------------------------------------------------------------------------------- the whole

    def run(self) -> None:
        """Runs it. Raises WorldError if the world fails, a fault cannot be healed, or the job cannot be started."""
        self._make_parts()
        with self.log:
            with self._made_statement_log() as logged:
                try:
                    with self.faults:
                        self._go()
                    self._end()
                finally:
                    self.starts.end_all()
                    self._reap()
                self.statements = logged.read()
                tables, keys = self.ground.lookup_tables, {str(key): key for key in self.given.keys}
                for one in self.statements:
                    for key in keys_asked_for(one.text, tables=tables, keys=keys):
                        self.recording.insert("asked", t_us=one.t_us, key=key, session=one.session)
            if logged.trouble:
                self.notes.append(logged.trouble)
            self._read()
            if self.pace is None:
                self.table_statement = self.seen.made_table()
                self.key_columns, self.numbered = self.ground.database.keys_of(self.order.job.sink.table)
            if self.how == "exit" and not self.has_files and self.ground.has_made_state:
                self.why_no_further_start = _DROPPED
            is_tested_again = not self.is_calm and not self.why_no_further_start
            if is_tested_again and self.how is not None and not self.cut_off:
                self._start_once_more()
            in_files = self.calm is not None and self.calm.keeps_files and not self.calm.keeps_tables
            if in_files and self._saved_at_kill and not any(self._saved_at_kill):
                self.notes.append(
                    "The job was killed before it had saved anything in its state folder, so each start after a kill"
                    " began anew: what it does with saved state was not tried."
                )
            if self.seen.why_no_audit:
                self.notes.append(
                    f"The trigger that tells sessions could not be made ({self.seen.why_no_audit}); the log of"
                    " changes is read without it."
                )
            self.records = self.faults.finish()
            self.sessions.learn()
            if self.faults.traffic.trouble:
                self.notes.append(self.faults.traffic.trouble)

    def _make_parts(self) -> None:
        database = self.ground.database

        def nowhere() -> NoReturn:
            at = f"{database.root.host}:{database.root.port}"
            message = f"the server at {at} does not tell the end of its log"
            raise WorldError(message, fix="floodmark doctor shows what the world lacks")

        begin = database.end_of_log(nowhere)
        self.seen = self._made_watch()
        self.log = self._made_log(begin)
        self.recording = JobRecording(where=self._end_of_log, read=lambda: self.log.position)
        self.offering = self._made_offering()
        self.starts = self._made_starts()
        self.sessions = SessionsFollowed(
            database=database,
            starts=self.starts,
            world=self.world,
            end_of_log=self._end_of_log,
            read_of_log=lambda: self.log.position,
            messages=lambda: self.faults.traffic.messages,
        )
        self.faults = self._made_faults()

    def _go(self) -> None:
        self.faults.arm()
        if self.order.job.sink.rows == "key":
            self.recording.expect_keys(self.keyed_rows())
        if self.calm is not None and self.calm.run.table_statement:
            self.ground.database.run(self.calm.run.table_statement)
        self.seen.audit()
        if self.order.scenario.offer == "all":
            self.offering.offer_all()
        self._start()
        self.began_us = self._start_us or 0
        deadline, turn = Deadline(self.limit_s), count()
        command_s = self.site.limit_s
        command = None if command_s is None else Deadline(command_s)
        while not self._take_in(deadline):
            if self.site.stop.is_set():
                self.cut_off = "interrupted"
            elif command is not None and command.passed:
                self.cut_off = f"the budget of the command is over, {command_s:.3g} s after the run began"
            if self.cut_off:
                break
            messages = self.faults.traffic.messages
            self.offering.offer_due(
                began_us=self.began_us,
                spoke_us=messages[0].t_us if messages else None,
                work_us=0 if self.pace is None else self.pace.work_us,
            )
            if monotonic_us() - self._advanced_us >= _ADVANCE_EVERY_US:
                self._advanced_us = monotonic_us()
                self.faults.advance(offered=self.offering.offered, first_offer_us=self.offering.first_us)
            self._look_at_processes()
            number = next(turn)
            if number % _TELL_EVERY == 0:
                self.world.look()
                self._tell(deadline)
            if number % _LOOK_FOR_SPARK_EVERY == 0:
                self._look_for_spark()
            pause(_POLL_S)
        self.ended_us = monotonic_us()

    def _end(self) -> None:
        """Every fault has healed: says how it ended, and stops the job."""
        self.seen.digest()
        if self.how is not None:
            self.recording.note("finished", how=self.how)
            if self.how == "all-rows" and self.order.job.job.ends == "exit":
                self.notes.append(
                    f"Start {self.starts.count} had nothing left to read and did not exit. If it asks the table `inbox`"
                    " only for rows behind its position, the view `inbox_end` tells it the end."
                )
        elif self.gave_up:
            self.recording.note("giveup", why=self.gave_up)
            if self.exits and self.exits[-1].code:
                self.notes.append(f"{self.exits[-1].text}; {self.last_words()}")
        self.faults.traffic.poll()
        self.sessions.learn()  # while the processes that opened the last sessions can still be told apart
        self._stop()

    def _take_in(self, deadline: Deadline) -> bool:
        """Takes in what has happened; if that is the end, notes how it came, and returns True."""
        self.seen.digest()
        self._reap()
        job, seen = self.order.job, self._seen()
        if job.job.ends == "exit" and has_exited_well(seen):
            self._restart_us = None  # what goes on beside it is waited for, and it is not started again
        self.how = how_finished(job, self.given, seen, self.expected)
        if self.how is not None and self.faults.active():
            # A fault may hide what the job still has to do: it is done only if it is without any.
            self.how = None
            self.faults.end_active()
            return False
        if self.how == "exit" and (self.sessions.may_have_orphans or self.sessions.outlived):
            return self._end_orphans()
        if self.how is not None:
            return True
        if self.pace is not None and needs_sentinels(
            job, self.given, seen, self.expected or {}, recover_us=self.pace.recover_us
        ):
            self._offer_sentinels()
            return False
        self.gave_up = self._why_give_up(deadline)
        return bool(self.gave_up)

    def _offer_sentinels(self) -> None:
        """Of a fault that is still on, the end is awaited first."""
        if self.faults.active():
            self.faults.end_active()
            return
        count = self.offering.offer_sentinels()
        say = f"it is quiet without its last rows; further records are offered: {count}"
        self.site.observer.phase("job", say)

    def _end_orphans(self) -> bool:
        """Gives processes whose start has ended some time to end, then ends them; returns whether none is left.

        A calm job that leaves some runs in the background, where its end cannot be seen.
        """
        left = self.starts.orphans()
        if left and self.sessions.orphans_may_stay:
            self.how = None
            return False
        outlived = self.sessions.outlived or next(iter(left), None)
        if outlived and self.pace is None:
            self.how = None
            self.gave_up = (
                f"its main process exited with code 0, and process {outlived.pid} of it goes on:"
                " run it in the foreground"
            )
        self.starts.end(left)
        self.sessions.forget_orphans()
        return True

    def _why_give_up(self, deadline: Deadline) -> str:
        job = self.order.job.job
        all_are_over = self.starts.count >= job.starts and self._restart_us is None
        if self.pace is None and self.exits and self.exits[-1].code != 0:
            return f"the job {self.exits[-1].how}"
        offered_us, exited_us = self.offering.ended_us, self._exited_well_us
        is_done = offered_us is not None and exited_us is not None and exited_us >= offered_us
        # A fault that has only just healed might be the cause; one that was still on at the last start is.
        fault_us, pace = self.recording.last_us("fault"), self.pace
        is_recovering = (
            fault_us is not None
            and pace is not None
            and fault_us <= (self._start_us or 0)
            and monotonic_us() - fault_us <= pace.recover_us
        )
        has_to_wait = is_recovering or (job.ends == "exit" and is_done)
        if all_are_over and not self.starts.living and self.exits and not has_to_wait:
            return f"the job has used up its {job.starts} starts; the last one: {self.exits[-1].text}"
        if not deadline.passed:
            return ""
        given, expected = self.given.records, self.expected or {}
        of_keys = self.order.job.sink.rows == "key"
        wrong = list(wrong_keys(self.seen.replay, expected)) if of_keys else []
        missing = [] if of_keys else list(missing_records(given, self.seen.replay, expected))
        what = (
            f": {len(wrong)} of {len(expected)} keys have other rows than expected, first key {wrong[0]}"
            if wrong
            else f": of {len(missing)} of {len(given)} records a row is missing, first of {missing[0].id}"
            if missing
            else ", though all its rows are there"
        )
        return f"after {deadline.seconds:.3g} s the job was not done{what}"

    # ------------------------------------------------------------------------------------ processes

    def _made_statement_log(self) -> StatementLog:
        return StatementLog(root=self.ground.database.root, user=self.world.app.user)

    def _made_watch(self) -> TableWatch:
        return TableWatch(**self.of_watch())

    def of_watch(self) -> dict[str, Any]:
        """What its `TableWatch` is made of."""
        return {
            "database": self.ground.database,
            "sink": self.order.job.sink,
            "offered": self.ids,
            "facts": TableFacts() if self.calm is None else self.calm.run.seen.facts,
        }

    def _made_log(self, begin: LogPosition) -> ChangeLog:
        root = self.world.root.at(self.world.direct, "")
        return ChangeLog(root, database=self.ground.database.root.database, begin=begin, take=self.seen.take)

    def _made_offering(self) -> Offering:
        return Offering(
            order=self.order,
            given=self.given,
            source=self.ground.source,
            recording=self.recording,
            expected=self.expected or {},
            reads=lambda since_us: self.faults.traffic.reads_of(INBOX, since_us),
            gap_max_us=0 if self.pace is None else self.pace.quiet_us,
        )

    def _made_faults(self) -> JobFaults:
        return JobFaults(
            faults=self.planned,
            seed=self.order.seed,
            control=self.world.proxy,
            server=self.world.server.of_run(self.ground.database.root.database),
            job=self.starts,
            log=self.recording,
            table=self.order.job.sink.table if self.calm is None or self.calm.names_table else "",
            state=self.ground.state,
            note=lambda note: monotonic_us(),
            prolongs_us=0 if self.pace is None else self.pace.quiet_us,
            tell=lambda text: self.site.observer.phase("fault", text),
        )

    def _made_starts(self) -> JobStarts:
        return JobStarts(**self.of_starts())

    def of_starts(self) -> dict[str, Any]:
        """What its `JobStarts` is made of."""
        return {
            "command": self.command,
            "folder": self.order.job.folder,
            "logs": self.ground.logs,
            "run_id": self.run_id,
            "links": self.world.links,
            "begins": self._begin_start,
            "wakes": lambda: self.sessions.begin_start(None),
            "commits": lambda: len(self.seen.row_times),
            "source": self.ground.source,
            "note_process": self.note_process,
            "state_folder": self.ground.state,
        }

    def _begin_start(self, number: int) -> Mapping[str, str]:
        """Called before each start, also one that a fault makes beside another."""
        self.sessions.begin_start(number)
        self.recording.note("start", start=number)
        self._start_us = monotonic_us()
        self._exited_well_us = None
        ground = self.ground
        return job_environment(
            self.order.job,
            base=self.order.environment,
            links=ground.links,
            source=ground.source.environment(),
            state=ground.state,
            done=ground.done,
            start=number,
            run_id=self.run_id,
            cluster=ground.cluster,
        )

    def _start(self) -> None:
        self._restart_us = None
        self.starts.start()
        if self.starts.count > 1:
            self.site.observer.phase("job", f"start {self.starts.count}")

    def _reap(self) -> None:
        for seen in self.starts.poll():
            self.exits.append(seen)
            fields: dict[str, Any] = dict(seen.fields())
            noted_us = self.recording.note("exit", **fields)
            self.site.observer.phase("job", seen.text)
            if seen.by in {fault.id for fault in self.planned}:
                checkpoints = find_checkpoints(self.ground.state)
                has_batch = any(one.batches for one in checkpoints)
                self._saved_at_kill.append(has_batch if checkpoints else self.ground.has_made_state)
            if seen.by == "outside":
                self.notes.append(f"{seen.text}: a signal that no fault of this run has sent.")
            if seen.start == self.starts.count:
                self._exited_well_us = noted_us if seen.code == 0 else None
                short = seen.lived_s < _SHORT_LIFE_S
                wait_s = _BACK_OFF_S[min(len(self.exits) - 1, len(_BACK_OFF_S) - 1)] if short else 0.0
                self._restart_us = monotonic_us() + round(wait_s * 1e6)
            self.sessions.note_exit(code=seen.code)

    def _look_at_processes(self) -> None:
        """Follows what lives of ended starts, and starts the job again after an exit."""
        self.sessions.look()
        is_due = self._restart_us is not None and monotonic_us() >= self._restart_us
        if is_due and self.starts.newest() is None and self.starts.count < self.order.job.job.starts:
            self.seen.audit()
            self._start()
        elif is_due and self.starts.count >= self.order.job.job.starts:
            self._restart_us = None

    def _look_for_spark(self) -> None:
        """Note, in a calm run, which processes of Spark there are: they decide which scenarios can be run."""
        newest = self.starts.newest()
        is_known = self.has_executors or self.order.job.job.engine == "plain"
        if self.pace is not None or newest is None or is_known:
            return
        family = self.starts.family(newest)
        self.has_driver = self.has_driver or is_spark(family)
        self.has_executors = self.has_driver and bool(find_executors(family))

    def _stop(self) -> None:
        stop = self.order.job.job.stop
        number = signal.Signals[f"SIG{stop.signal}"]
        if not self.starts.stop(number=number, grace_s=stop.grace / 1000):
            self.notes.append(
                f"The job did not end within {stop.grace / 1000:g} s of SIG{stop.signal}, so it was killed."
            )
        self._reap()

    # --------------------------------------------------------------------------------- what is seen

    def _end_of_log(self) -> LogPosition:
        """Where the log ends now, or how far it was read if the server does not answer."""
        return self.ground.database.end_of_log(lambda: self.log.position)

    def _seen(self) -> EndSignals:
        pace, now_us = self.pace, monotonic_us()
        rows_us = self.seen.row_times
        first_us = rows_us[0] if rows_us else None
        state, spark_end = self.ground.state, self.ground.source.spark_end()
        # Spark itself says when it has read everything; of another job only its silence tells.
        has_all = bool(find_checkpoints(state)) and not spark_is_behind(state, spark_end)
        start_up_us = 0 if has_all else (first_us or 0) - self.began_us
        calm_us = max(2_000_000, 3 * self.seen.longest_gap_us, start_up_us)
        done = self.ground.done
        return EndSignals(
            now_us=now_us,
            offered_us=self.offering.ended_us,
            exited_well_us=self._exited_well_us,
            lives=self.starts.newest() is not None,
            older_lives=any(number < self.starts.count for number in self.starts.living),
            said_done=self.offering.ended_us is not None and done.exists(),
            replay=self._replay(),
            last_row_us=rows_us[-1] if rows_us else None,
            last_event_us=self.recording.last_us("start", "exit", "fault"),
            last_start_us=self._start_us,
            faults_settled=self.faults.is_settled(),
            last_fault_us=self.recording.last_us("fault"),
            rounds=self.offering.rounds,
            quiet_us=calm_us if pace is None else pace.quiet_us,
            start_up_us=0 if pace is None else 2 * pace.first_row_us,
            state=state,
            spark_end=spark_end,
        )

    def _replay(self) -> SinkReplay | None:
        """The table as the log shows it; as a reading does, once in a while, if the log cannot be followed."""
        columns, table, now_us = self.seen.columns, self.order.job.sink.table, monotonic_us()
        if not self.seen.unfollowed or columns is None or self.order.job.job.ends != "settles":
            return self.seen.replay
        if now_us - self._looked_us >= _LOOK_AT_TABLE_US:
            with suppress(pymysql.MySQLError, OSError):
                rows = self.ground.database.snapshot([table], limit_s=0).tables.get(table, ())
                self._looked_at = as_replay(columns, rows)
            self._looked_us = monotonic_us()
        return self._looked_at

    def _tell(self, deadline: Deadline) -> None:
        """The present state, and every few seconds a line of it, for a job may be silent for minutes."""
        records = len(self.given.records)
        if monotonic_us() - max(self._told_us, self.began_us) >= _HEARTBEAT_US:
            self._told_us = monotonic_us()
            self.site.observer.phase("job", f"{self.seen.rows} rows so far, of {records} records")
        self.site.observer.standing(
            in_flight=0,
            lag=max(0, records - self.seen.rows),
            epoch=self.starts.count,
            faults=self.faults.active(),
            elapsed_s=deadline.seconds - deadline.left_s,
        )

    # ---------------------------------------------------------------------------------- the readings

    def _read(self) -> None:
        """Reads the tables and notes the reading."""
        order, database = self.order, self.ground.database
        sink, number = order.job.sink, len(self.readings) + 1
        tables = [sink.table, *([sink.dead_letters] if sink.dead_letters else [])]
        try:
            snapshot = database.snapshot(tables, limit_s=_CATCH_UP_S)
        except (pymysql.MySQLError, OSError) as error:
            self.notes.append(f"The tables could not be read: {error}.")
            return
        self.readings.append(snapshot)
        has_log = self.log.wait_for(snapshot.at, limit_s=_CATCH_UP_S)
        self.seen.digest()
        note_tables(
            self.recording, snapshot, number, sink=sink, columns=self.seen.columns, offered=self.seen.offered
        )
        if has_log:
            self.recording.note("read", at=snapshot.at, reading=number, of="log", rows=0)
        else:
            why = self.log.broken or "it did not come in time"
            self.notes.append(f"The log of changes could not be read to the end: {why}.")

    def _start_once_more(self) -> None:
        """Starts the finished job again, waits until it has had time to do something, and reads again."""
        pace = self.pace
        assert pace is not None, "only a run that follows a calm twin is started once more"
        self.ground.done.unlink(missing_ok=True)
        self.site.observer.phase("job", f"start {self.starts.count + 1}: nothing may change")
        try:
            self._start()
            self._await_further_start(pace)
            ends = self.order.job.job.ends
            if ends == "exit" and self.starts.newest() is not None and not self.site.stop.is_set():
                self.notes.append(
                    f'Started once more, the finished job did not exit, though `ends` is "exit": it was stopped after'
                    f" {(monotonic_us() - (self._start_us or 0)) / 1e6:.2g} s."
                )
                self.site.observer.phase("job", self.notes[-1])
            self._stop()
        finally:
            self.starts.end_all()
            self._reap()
        self._read()

    def _await_further_start(self, pace: Pace) -> None:
        """Returns when it has ended, or has sent something and written nothing for longer than to a first row."""
        idle_us = 2 * pace.first_row_us + pace.quiet_us
        deadline = Deadline(max(_FURTHER_S, 3 * pace.took_us / 1e6))
        traffic = Traffic(control=self.world.proxy)
        traffic.skip()
        with noted(self.world.proxy):
            while not deadline.passed and not self.site.stop.is_set() and self.starts.newest() is not None:
                self.seen.digest()
                self._reap()
                if not traffic.messages:
                    traffic.poll()
                active_us = [*(one.t_us for one in traffic.messages[:1]), *self.seen.row_times[-1:]]
                if traffic.messages and monotonic_us() - max(active_us) >= idle_us:
                    return
                if self.order.job.job.ends == "file" and self.ground.done.exists():
                    return
                pause(_POLL_S)


class JobDoesNotWork(WorldError):
    """The job fails, or breaks a claim of its own, without any fault."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokenByCalm:
    """A claim that the job breaks without any fault."""

    error: WorldError
    record: OutsideRecord | None
    """None: it may be the job file that is wrong, and not the job."""

    def of(self, order: JobOrder) -> OutsideRecord:
        """The run that shows it, if that counts for `order`. Raises WorldError if it does not."""
        if self.record is None or not order.calm_counts:
            raise self.error
        return self.record


@dataclass(frozen=True, slots=True, kw_only=True)
class CalmRun:
    """What the calm run shows."""

    pace: Pace
    expected: ExpectedRows
    keys: Mapping[str, Any]
    """Where rows are of keys: each key in `expected` as a history tells it, by its text."""
    keyed: str
    """Why rows were taken to be of keys, which the job file does not say; empty: they were not."""
    messages: tuple[Message, ...]
    """What passed both links of the proxy."""
    keeps_files: bool
    """Whether it left anything in its state folder."""
    keeps_tables: bool
    """Whether it wrote to a table that is not the sink's or the harness's."""
    batches: int
    """How many batches the longest checkpoint of Spark in its state folder has."""
    run: JobRun
    broken: BrokenByCalm | None = None
    """None: it breaks no claim of the job."""

    @property
    def names_table(self) -> bool:
        """Whether a statement named the sink's table; false if it changes by a view, a trigger or a function."""
        table = self.run.order.job.sink.table
        return any(one.commits and one.changes(table) for one in requests_over(self.messages, "sink"))

    @property
    def without_row(self) -> Sequence[str]:
        """The text of the id of each record that yields no row, though it is not meant to fail."""
        of_keys = self.run.order.job.sink.rows == "key"
        return [] if of_keys else [text for text in self.run.offered_ids if not self.expected.get(text)]

    @property
    def keeps_state(self) -> bool:
        """Whether it left anything by which a further start knows what is done."""
        return self.keeps_files or self.keeps_tables

    @property
    def facts(self) -> Mapping[str, float]:
        """For the report."""
        sink = requests_over(self.messages, "sink")
        commits = sum(one.commits for one in sink)
        return {
            "first_row_ms": round(self.pace.first_row_us / 1000),
            "gap_ms": round(self.pace.gap_us / 1000),
            "took_s": round(self.pace.took_us / 1e6, 2),
            "messages": len(sink),
            "commits": commits,
        }
