"""The life of a job in one run: its starts, what it is offered, the faults, and its end; with or without faults.

Answers to Jepsen's `run!` for a program that is not ours. Invariants: when it is over no process of the job is left and
every fault is healed, also after an error; every event is noted with its place in the log of changes; a table is read
when no start lives.
"""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count, pairwise
from threading import Lock
from typing import Any, Final

import pymysql

from harness.clock import Deadline, monotonic_us, pause
from harness.errors import WorldError
from harness.jobs.binlog import ChangeLog, Transaction
from harness.jobs.disturbance import JobFaults
from harness.jobs.finished import EndSeen, How, how_finished, missing_records
from harness.jobs.job_database import JobDatabase, Snapshot
from harness.jobs.life_parts import LifeParts
from harness.jobs.lookups_seen import LookupsSeen
from harness.jobs.offering import Offering
from harness.jobs.processes import JobExitSeen, JobStarts
from harness.jobs.reading_tables import note_tables, refuse_columns
from harness.jobs.recording import JobRecording
from harness.jobs.sessions import JobSessions
from harness.jobs.sink_rows import SinkColumns, SinkReplay, id_text, is_of_table
from harness.jobs.spark_engine import spark_has_all
from harness.runs.outcome import FaultRecord
from harness.world.world import World

__all__ = ["JobLife"]

_POLL_S: Final = 0.01
_ADVANCE_EVERY_US: Final = 30_000
"""The proxy is asked what it saw no more often than that."""
_TELL_EVERY: Final = 20
_ORPHANS_EVERY_US: Final = 200_000
_UNSURE_EVERY_US: Final = 2_000_000
_ORPHANS_MAX_US: Final = 5_000_000
_BACK_OFF_S: Final = (0.0, 0.2, 0.5, 1.0, 2.0)
_SHORT_LIFE_S: Final = 1.0
_CATCH_UP_S: Final = 30.0
_FURTHER_S: Final = 20.0


@dataclass(slots=True, kw_only=True)
class JobLife:
    """One life, lived by `live`. Mutable: everything seen of it is kept here."""

    parts: LifeParts
    transactions: list[Transaction] = field(default_factory=list)
    columns: SinkColumns | None = None
    """None: the table is not there yet."""
    sessions: JobSessions = field(default_factory=JobSessions)
    how: How | None = None
    """By what it was done; None: it was not."""
    gave_up: str = ""
    interrupted: bool = False
    exits: list[JobExitSeen] = field(default_factory=list)
    readings: list[Snapshot] = field(default_factory=list)
    premade: str = ""
    """Of a calm life: see `LifeParts.premade`."""
    notes: list[str] = field(default_factory=list)
    """What limits the meaning of a pass, a sentence each."""
    began_us: int = 0
    """When it was started first."""
    ended_us: int = 0
    recording: JobRecording = field(init=False)
    starts: JobStarts = field(init=False)
    log: ChangeLog = field(init=False)
    offering: Offering = field(init=False)
    faults: JobFaults = field(init=False)
    records: Sequence[FaultRecord] = ()
    """What became of the faults."""
    _replay: SinkReplay | None = None
    _digested: int = 0
    _row_us: list[int] = field(default_factory=list)
    _advanced_us: int = 0
    _start_us: int | None = None
    _restart_us: int | None = None
    _exited_well: bool = False
    _orphans_us: int | None = None
    """Since when there are processes of starts that have ended."""
    _looked_us: int = 0
    _file: str = ""
    _identified_us: int = 0
    _is_audited: bool = False
    _why_no_audit: str = ""
    _lock: Lock = field(default_factory=Lock)

    @property
    def row_times(self) -> Sequence[int]:
        """When each transaction that changed the table was first seen."""
        return self._row_us

    @property
    def writes_after_exit(self) -> bool:
        """Whether the table changed behind the place of the log at which the last exit was seen."""
        exits = [at for _, at, kind, _ in self.recording.told() if kind == "exit"]
        table = self.parts.order.job.sink.table
        return bool(exits) and any(
            one.end > exits[-1] and any(change.table == table for change in one.changes)
            for one in self.transactions
        )

    @property
    def offered(self) -> int:
        """How many records were offered."""
        return self.offering.offered

    @property
    def offered_ids(self) -> Sequence[str]:
        """The text of the id of each record that is not meant to fail."""
        return [id_text(record.id) for record in self.parts.given.records if not record.fails]

    # -------------------------------------------------------------------------------------- the whole

    def live(self) -> None:
        """Lives it. Raises WorldError if the world fails or a fault cannot be healed, OSError if nothing starts."""
        parts, database = self.parts, self.parts.ground.database
        begin = database.end_of_log(lambda: _nowhere(database))
        self._file = begin.file
        root = parts.world.root.at(parts.world.direct, "")
        self.log = ChangeLog(root, database=database.root.database, begin=begin, take=self._take)
        self.recording = JobRecording(
            where=lambda: database.end_of_log(lambda: self.log.position), read=lambda: self.log.position
        )
        self.offering = Offering(
            order=parts.order,
            given=parts.given,
            source=parts.ground.source,
            recording=self.recording,
            expected=parts.expected or {},
        )
        self.starts = self._made_starts()
        self.faults = self._made_faults()
        asked = self._made_lookups()
        asked.begin()
        with self.log:
            try:
                with self.faults:
                    self._go()
                self._end()
            finally:
                self.starts.end_all()
                self._reap()
            self._note_lookups(asked)
            self._read()
            if self.parts.pace is None:
                self.premade = self.made_table()
            if self._wants_further_start():
                self._start_once_more()
            if self._why_no_audit:
                self.notes.append(
                    f"The trigger that tells sessions could not be made ({self._why_no_audit}); the log of changes is"
                    " read without it."
                )
            self.records = self.faults.finish()

    def _go(self) -> None:
        self.faults.arm()
        if self.parts.premade:
            self.parts.ground.database.run(self.parts.premade)
        self._audit()
        if self.parts.order.scenario.offer == "all":
            self.offering.offer_all()
        self._start()
        self.began_us = self._start_us or 0
        deadline, turn = Deadline(self.parts.limit_s), count()
        while not self._is_over(deadline):
            self.offering.offer_due(self.began_us)
            if monotonic_us() - self._advanced_us >= _ADVANCE_EVERY_US:
                self._advanced_us = monotonic_us()
                self.faults.advance(offered=self.offering.offered, first_offer_us=self.offering.first_us)
            self._look_at_processes()
            if next(turn) % _TELL_EVERY == 0:
                self.parts.world.look()
                self._tell(deadline)
            pause(_POLL_S)
        self.ended_us = monotonic_us()

    def _end(self) -> None:
        """Every fault has healed: says how it ended, and stops the job."""
        self._digest()
        if self.how is not None:
            self.recording.note("finished", how=self.how)
        elif self.gave_up:
            self.recording.note("giveup", why=self.gave_up)
        self._stop()

    def _is_over(self, deadline: Deadline) -> bool:
        self._digest()
        self._reap()
        self.how = how_finished(self.parts.order.job, self.parts.given, self._seen(), self.parts.expected)
        if self.how is not None:
            return self._has_left_nothing()
        if self.parts.site.stop.is_set():
            self.interrupted = True
            return True
        self.gave_up = self._why_give_up(deadline)
        return bool(self.gave_up)

    def _has_left_nothing(self) -> bool:
        """Whether no process of a start that has ended goes on; waits for one, and then ends it.

        A calm job that leaves some has gone to the background, where nobody can tell whether it lives.
        """
        if self.how != "exit" or self._orphans_us is None:
            return True
        left = self.starts.orphans()
        if left and monotonic_us() - self._orphans_us < _ORPHANS_MAX_US:
            self.how = None
            self._restart_us = None  # it has exited well, and is waited for, not started again
            return False
        if left and self.parts.pace is None:
            self.how = None
            self.gave_up = (
                f"its main process exited with code 0, and process {left[0].pid} of it goes on:"
                " run it in the foreground"
            )
        self.starts.end(left)
        self._orphans_us = None
        return True

    def _why_give_up(self, deadline: Deadline) -> str:
        job = self.parts.order.job.job
        all_are_over = self.starts.count >= job.starts and self._restart_us is None
        if self.parts.pace is None and self.exits and self.exits[-1].code != 0:
            return f"the job {self.exits[-1].text.partition(' ')[2].partition(' ')[2]}"
        if all_are_over and not self.starts.living and self.exits and not self._has_to_wait():
            return f"the job has used up its {job.starts} starts; the last one: {self.exits[-1].text}"
        if not deadline.passed:
            return ""
        return f"after {deadline.seconds:.3g} s the job was not done{self._what_is_missing()}"

    def _has_to_wait(self) -> bool:
        """Whether a job that has used up its starts, the last one after every fault, may not be given up yet.

        A fault that has only just healed might be the cause; one that was still on when it started last is.
        """
        fault_us = self.recording.last_us("fault")
        if fault_us is None or self.parts.pace is None or fault_us > (self._start_us or 0):
            return False
        return monotonic_us() - fault_us <= self.parts.pace.recover_us

    def _what_is_missing(self) -> str:
        given, expected = self.parts.given.records, self.parts.expected or {}
        missing = list(missing_records(given, self._replay, expected))
        if not missing:
            return ", though all its rows are there"
        return f": of {len(missing)} of {len(given)} records a row is missing, first of {missing[0].id}"

    # ------------------------------------------------------------------------------------ processes

    def _made_faults(self) -> JobFaults:
        parts = self.parts
        return JobFaults(
            faults=parts.faults,
            seed=parts.order.seed,
            control=parts.world.proxy,
            server=parts.world.server.of_run(parts.ground.database.root.database),
            job=self.starts,
            log=self.recording,
            table=parts.order.job.sink.table,
            state=parts.ground.state,
            note=lambda kind, fault, **facts: monotonic_us(),
            tell=lambda text: parts.site.observer.phase("fault", text),
        )

    def _made_lookups(self) -> LookupsSeen:
        parts = self.parts
        return LookupsSeen(
            root=parts.ground.database.root,
            user=parts.world.app.user,
            tables=parts.ground.lookup_tables,
            keys=parts.given.keys,
        )

    def _note_lookups(self, asked: LookupsSeen) -> None:
        for seen in asked.read():
            self.recording.insert("asked", t_us=seen.t_us, key=seen.key, session=seen.session)
        if asked.trouble:
            self.notes.append(asked.trouble)

    def _made_starts(self) -> JobStarts:
        parts = self.parts
        return JobStarts(
            command=parts.command,
            folder=parts.order.job.folder,
            logs=parts.ground.logs,
            run_id=parts.run_id,
            links=parts.world.links,
            peers=_Peers(world=parts.world),
            begins=self._begin_start,
            commits=lambda: len(self._row_us),
            source=parts.ground.source,
            note_process=parts.note_process,
            state_folder=parts.ground.state,
        )

    def _begin_start(self, number: int) -> Mapping[str, str]:
        """Called before each start, also one that a fault makes beside another."""
        database = self.parts.ground.database
        is_alone = not self.starts.living and self._orphans_us is None
        at = database.end_of_log(lambda: self.log.position)
        self.sessions.pass_to(number if is_alone else None, session=database.sessions(), at=at)
        self.recording.note("start", start=number)
        self._start_us = monotonic_us()
        self._exited_well = False
        return self.parts.ground.environment(self.parts.order, start=number, run_id=self.parts.run_id)

    def _start(self) -> None:
        self._restart_us = None
        self.starts.start()
        if self.starts.count > 1:
            self.parts.site.observer.phase("job", f"start {self.starts.count}")

    def _reap(self) -> None:
        for seen in self.starts.poll():
            self.exits.append(seen)
            fields: dict[str, Any] = dict(seen.fields())
            self.recording.note("exit", **fields)
            self.parts.site.observer.phase("job", seen.text)
            if seen.by == "outside":
                self.notes.append(f"{seen.text}: a signal that no fault of this run has sent.")
            if seen.start == self.starts.count:
                self._exited_well = seen.code == 0
                short = seen.lived_s < _SHORT_LIFE_S
                wait_s = _BACK_OFF_S[min(len(self.exits) - 1, len(_BACK_OFF_S) - 1)] if short else 0.0
                self._restart_us = monotonic_us() + round(wait_s * 1e6)
            self._orphans_us = monotonic_us() if self._orphans_us is None else self._orphans_us
            self._looked_us = (
                0  # at once: sessions of the next start are known only when nothing of this one lives
            )

    def _look_at_processes(self) -> None:
        """Starts the job again after an exit, and follows processes whose start has ended."""
        now_us = monotonic_us()
        if self._orphans_us is not None and now_us - self._looked_us >= _ORPHANS_EVERY_US:
            self._looked_us = now_us
            orphans = self.starts.orphans()
            if orphans and now_us - self._orphans_us > _ORPHANS_MAX_US:
                self.starts.end(orphans)
            elif not orphans:
                self._orphans_us = None
                self._note_boundary()
        if not self._is_alone() and now_us - self._identified_us >= _ORPHANS_EVERY_US:
            self._identify_sessions()
        if self.sessions.is_unsure and now_us - self._identified_us >= _UNSURE_EVERY_US:
            self._identified_us = now_us
            self._note_boundary()
        if self.log.position.file != self._file:  # the server was restarted, and counts its sessions anew
            self._file = self.log.position.file
            if not self.sessions.has(self._file):
                self._note_boundary(from_session=0)
        is_due = self._restart_us is not None and now_us >= self._restart_us
        if is_due and self.starts.newest() is None and self.starts.count < self.parts.order.job.job.starts:
            self._audit()
            self._start()
        elif is_due and self.starts.count >= self.parts.order.job.job.starts:
            self._restart_us = None

    def _is_alone(self) -> bool:
        """Whether all processes of the job belong to one start."""
        return self._orphans_us is None and len(self.starts.living) <= 1

    def _identify_sessions(self) -> None:
        """While several starts may write: which session is whose, by the proxy's and the system's sockets."""
        self._identified_us = monotonic_us()
        starts = self.starts.starts_of_ports()
        at = self.parts.ground.database.end_of_log(lambda: self.log.position)
        for link in self.parts.world.links:
            for one in self.parts.world.proxy.connections(link):
                start = starts.get(one.peer)
                if one.session is not None and start is not None:
                    self.sessions.know(one.session, start, at=at)

    def _note_boundary(self, *, from_session: int | None = None) -> None:
        database, newest = self.parts.ground.database, self.starts.newest()
        at = database.end_of_log(lambda: self.log.position)
        session = database.sessions() if from_session is None else from_session
        is_alone = newest is not None and self._is_alone()
        self.sessions.pass_to(newest.number if newest and is_alone else None, session=session, at=at)

    def _stop(self) -> None:
        stop = self.parts.order.job.job.stop
        number = signal.Signals[f"SIG{stop.signal}"]
        if not self.starts.stop(number=number, grace_s=stop.grace / 1000):
            self.notes.append(
                f"The job did not end within {stop.grace / 1000:g} s of SIG{stop.signal}, so it was killed."
            )
        self._reap()

    # --------------------------------------------------------------------------------- what is seen

    def _take(self, transaction: Transaction) -> None:
        """Called by the reader of the log, in its own thread."""
        with self._lock:
            self.transactions.append(transaction)
            if any(change.table == self.parts.order.job.sink.table for change in transaction.changes):
                self._row_us.append(transaction.seen_us)

    def _digest(self) -> None:
        """Applies what is new in the log to the replay; learns the columns when the table appears."""
        with self._lock:
            new = self.transactions[self._digested :]
        table = self.parts.order.job.sink.table
        if any(is_of_table(transaction.statement, table) for transaction in new):
            self.columns = self._replay = None
            self._digested, self._is_audited = 0, False
        if self.columns is None and (new or not self.transactions):
            self._learn()
        if self._replay is None:
            return
        with self._lock:
            new = self.transactions[self._digested :]
            self._digested = len(self.transactions)
        for transaction in new:
            self._replay.take(transaction)

    def _learn(self) -> None:
        sink, database = self.parts.order.job.sink, self.parts.ground.database
        try:
            types = database.columns(sink.table)
        except (pymysql.MySQLError, OSError):  # a fault has the server down
            return
        if not types:
            return
        wanted = [*sink.id, *sink.values, *([sink.j] if sink.j else [])]
        refuse_columns(sink.table, wanted, types)
        offered = {id_text(record.id): record.id for record in self.parts.given.records}
        self.columns = SinkColumns(sink=sink, types=types, offered=offered)
        self._replay, self._digested = SinkReplay(columns=self.columns), 0
        self._audit()

    def _audit(self) -> None:
        """Makes the audit trigger once, when the table is there; it may be refused."""
        if self._is_audited:
            return
        database, table = self.parts.ground.database, self.parts.order.job.sink.table
        try:
            kind = database.tables().get(table)
        except (pymysql.MySQLError, OSError):
            return
        if kind is None:
            return
        if kind == "VIEW":
            message = f"sink.table {table} is a view, whose changes the log of changes does not show"
            raise WorldError(message, fix="name the table behind it")
        self._why_no_audit = database.install_audit(table)
        self._is_audited = not self._why_no_audit

    def _seen(self) -> EndSeen:
        pace, now_us = self.parts.pace, monotonic_us()
        first_us = self._row_us[0] if self._row_us else None
        gaps = [b - a for a, b in pairwise(self._row_us)]
        state, spark_end = self.parts.ground.state, self.parts.ground.source.spark_end()
        # Spark itself says when it has read everything; of another job only its silence tells.
        start_up_us = 0 if spark_has_all(state, spark_end) else (first_us or 0) - self.began_us
        calm_us = max(2_000_000, 3 * max(gaps, default=0), start_up_us)
        done = self.parts.ground.done
        return EndSeen(
            now_us=now_us,
            offered_us=self.offering.ended_us,
            exited_well=self._exited_well,
            exited_us=self.recording.last_us("exit"),
            lives=self.starts.newest() is not None,
            said_done=self.offering.ended_us is not None and done.exists(),
            replay=self._replay,
            last_row_us=self._row_us[-1] if self._row_us else None,
            last_event_us=self.recording.last_us("start", "exit", "fault"),
            last_start_us=self._start_us,
            faults_settled=self.faults.is_settled(),
            quiet_us=calm_us if pace is None else pace.quiet_us,
            start_up_us=0 if pace is None else 2 * pace.first_row_us,
            state=state,
            spark_end=spark_end,
        )

    def _tell(self, deadline: Deadline) -> None:
        records = len(self.parts.given.records)
        rows = 0 if self._replay is None else self._replay.rows.total()
        self.parts.site.observer.standing(
            in_flight=0,
            lag=max(0, records - rows),
            epoch=self.starts.count,
            faults=self.faults.active(),
            elapsed_s=deadline.seconds - deadline.left_s,
        )

    # ---------------------------------------------------------------------------------- the readings

    def _read(self) -> None:
        """Reads the tables and notes the reading."""
        order, database = self.parts.order, self.parts.ground.database
        sink, number = order.job.sink, len(self.readings) + 1
        tables = [sink.table, *([sink.dead_letters] if sink.dead_letters else [])]
        try:
            snapshot = database.snapshot(tables, limit_s=_CATCH_UP_S)
        except (pymysql.MySQLError, OSError) as error:
            self.notes.append(f"The tables could not be read: {error}.")
            return
        self.readings.append(snapshot)
        has_log = self.log.wait_for(snapshot.at, limit_s=_CATCH_UP_S)
        self._digest()
        offered = {id_text(record.id): record.id for record in self.parts.given.records}
        note_tables(self.recording, snapshot, number, sink=sink, columns=self.columns, offered=offered)
        if has_log:
            self.recording.note("read", at=snapshot.at, reading=number, of="log", rows=0)
        else:
            why = self.log.broken or "it did not come in time"
            self.notes.append(f"The log of changes could not be read to the end: {why}.")

    def made_table(self) -> str:
        """The statement that makes the table as the job made it, if the job does so only where it is not there yet."""
        table, database = self.parts.order.job.sink.table, self.parts.ground.database
        made = [one.statement for one in self.transactions if is_of_table(one.statement, table)]
        words = [" ".join(statement.split()).upper() for statement in made]
        if not made or not all(said.startswith("CREATE TABLE IF NOT EXISTS") for said in words):
            return ""
        try:
            return re.sub(r" AUTO_INCREMENT=\d+", "", database.made_by(table))
        except (pymysql.MySQLError, OSError):
            return ""

    def _wants_further_start(self) -> bool:
        return self.parts.further_start and self.how is not None and not self.interrupted

    def _start_once_more(self) -> None:
        """Starts the finished job again, waits until it has had time to do something, and reads again."""
        pace = self.parts.pace
        assert pace is not None, "only a run that follows a calm twin is started once more"
        self.parts.ground.done.unlink(missing_ok=True)
        self.parts.site.observer.phase("job", f"start {self.starts.count + 1}: nothing may change")
        try:
            self._start()
            idle_us = 2 * pace.first_row_us + pace.quiet_us
            deadline = Deadline(max(_FURTHER_S, 3 * pace.took_us / 1e6))
            while not deadline.passed and not self.parts.site.stop.is_set():
                self._digest()
                self._reap()
                is_idle = monotonic_us() - max(self._start_us or 0, self._row_us[-1] if self._row_us else 0)
                if self.starts.newest() is None or (
                    is_idle >= idle_us and self.parts.order.job.job.ends != "exit"
                ):
                    break
                if self.parts.order.job.job.ends == "file" and self.parts.ground.done.exists():
                    break
                pause(_POLL_S)
            self._stop()
        finally:
            self.starts.end_all()
            self._reap()
        self._read()


def _nowhere(database: JobDatabase) -> Any:
    message = f"the server at {database.root.host}:{database.root.port} does not tell the end of its log"
    raise WorldError(message, fix="floodmark doctor shows what the world lacks")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Peers:
    """Implements `PeersOfLinks` by the proxy's list of live connections."""

    world: World

    def peer_port(self, link: str, connection: int) -> int | None:
        for one in self.world.proxy.connections(link):
            if one.id == connection:
                return int(one.peer)
        return None
