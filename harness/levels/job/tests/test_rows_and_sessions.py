"""Rows of a job's table, sessions of its starts, and the rule by which it is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from harness.history.outside import AskedLookup, JobStart, LogRow
from harness.levels.job.binlog import LoggedChange, LoggedTransaction, LogPosition
from harness.levels.job.finished import EndSignals, how_finished, needs_sentinels
from harness.levels.job.job_file import Job, JobFile, SinkTable
from harness.levels.job.recording import JobRecording, events_of, logged_rows
from harness.levels.job.records import JobInput, SourceRecord
from harness.levels.job.sessions import JobSessions, SessionsFollowed
from harness.levels.job.sink_rows import SinkColumns, SinkReplay, as_keys, is_of_table, moves_rows
from harness.levels.job.spark_engine import SparkEnd

if TYPE_CHECKING:
    from harness.levels.job.job_database import JobDatabase
    from harness.levels.job.processes import JobStarts
    from harness.world.world import World

TYPES = {"id": "bigint", "name": "varchar", "f": "float", "d": "decimal", "n": "int"}


def _columns(**sink: Any) -> SinkColumns:
    table = SinkTable.model_validate({"values": ["name"], **sink})
    return SinkColumns(sink=table, types=TYPES, offered={"1": 1, "2": "2"})


def _at(offset: int, file: str = "log.1") -> LogPosition:
    return LogPosition(file=file, offset=offset)


def _transaction(*changes: LoggedChange, offset: int = 1, statement: str = "") -> LoggedTransaction:
    return LoggedTransaction(end=_at(offset), seen_us=offset, changes=changes, statement=statement)


def _insert(**values: Any) -> LoggedChange:
    return LoggedChange(op="insert", table="enriched", now=values)


# ------------------------------------------------------------------------------------------------ rows


@pytest.mark.parametrize(
    ("statement", "moves"),
    [
        ("RENAME TABLE `enriched` TO old, staging TO enriched", True),
        ("rename table staging to db.enriched", True),
        ("ALTER TABLE staging RENAME TO enriched", True),
        ("ALTER TABLE enriched EXCHANGE PARTITION p0 WITH TABLE staging", True),
        ("ALTER TABLE enriched TRUNCATE PARTITION p0", True),
        ("ALTER TABLE enriched RENAME COLUMN a TO b", False),
        ("ALTER TABLE enriched RENAME INDEX a TO b", False),
        ("ALTER TABLE enriched ADD COLUMN a INT", False),
        ("RENAME TABLE one TO another", False),
        ("TRUNCATE TABLE enriched", False),
    ],
)
def test_statements_that_bring_or_take_rows_without_the_log_are_known(statement: str, *, moves: bool) -> None:
    assert moves_rows(statement, "enriched") is moves


@pytest.mark.parametrize(
    ("logged", "selected"),
    [
        ({"f": 0.10000000149011612}, {"f": 0.1}),
        ({"d": Decimal("2.00")}, {"d": Decimal(2)}),
        ({"name": b"x"}, {"name": "x"}),
    ],
)
def test_a_row_reads_the_same_from_the_log_and_from_the_table(
    logged: dict[str, Any], selected: dict[str, Any]
) -> None:
    columns = _columns(values=["name", "f", "d"])
    assert columns.row({"id": 1, **logged}) == columns.row({"id": 1, **selected})


def test_an_id_of_another_type_than_the_sources_is_the_offered_one() -> None:
    assert _columns().row({"id": "1", "name": "x"}).id == 1
    assert _columns().row({"id": 2, "name": "x"}).id == "2"
    assert _columns().row({"id": 3, "name": "x"}).id == 3


def test_rows_of_one_record_have_numbers_where_a_column_has_them() -> None:
    row = _columns(j="n").row({"id": 1, "n": 4, "name": "x"})
    assert row.told() == {"id": 1, "j": 4, "v": ["x"]}


def test_a_replay_is_the_table_that_the_log_makes() -> None:
    replay = SinkReplay(columns=_columns())
    replay.take(_transaction(_insert(id=1, name="a"), _insert(id=1, name="a"), _insert(id=2, name="b")))
    update = LoggedChange(
        op="update", table="enriched", was={"id": 2, "name": "b"}, now={"id": 2, "name": "c"}
    )
    delete = LoggedChange(op="delete", table="enriched", was={"id": 1, "name": "a"})
    replay.take(_transaction(update, delete, LoggedChange(op="insert", table="other", now={"id": 9})))
    assert [row.v for row in replay.of(1)] == [("a",)]
    assert [row.v for row in replay.of("2")] == [("c",)]
    assert replay.rows.total() == 2


@pytest.mark.parametrize(
    "statement", ["TRUNCATE TABLE enriched", "drop table `db`.`enriched`", "DROP TABLE a,enriched"]
)
def test_a_statement_that_empties_the_table_deletes_each_row(statement: str) -> None:
    replay = SinkReplay(columns=_columns())
    replay.take(_transaction(_insert(id=1, name="a"), _insert(id=2, name="b")))
    assert [change.op for change in replay.take(_transaction(statement=statement))] == ["delete", "delete"]
    assert not replay.all_rows()


def test_the_harness_tells_its_triggers_from_changes_of_the_table() -> None:
    assert is_of_table("CREATE TABLE IF NOT EXISTS enriched (id INT)", "enriched")
    assert not is_of_table("CREATE TRIGGER t AFTER INSERT ON `enriched` FOR EACH ROW SET @a = 1", "enriched")
    assert not is_of_table("CREATE TABLE enriched_too (id INT)", "enriched")


# -------------------------------------------------------------------------------------------- sessions


def test_what_is_learned_late_of_the_time_before_all_events_does_not_move_the_rows() -> None:
    recording = JobRecording(where=lambda: _at(1), read=lambda: _at(9), began_us=0)
    recording.note("start", at=_at(1), t_us=5, start=1)
    row = _transaction(_insert(id=1, name="a"), offset=9)

    recording.insert("asked", t_us=2, key=5, session=7)
    rows = logged_rows([row], _columns(), JobSessions(), session_of=lambda transaction: None)
    events = events_of(recording, list(rows))

    assert [type(event) for event in events] == [AskedLookup, JobStart, LogRow]


def test_a_session_belongs_to_the_start_that_alone_lived_when_it_was_opened() -> None:
    sessions = JobSessions()
    sessions.pass_to(1, session=10, at=_at(100))
    sessions.pass_to(None, session=12, at=_at(200))  # the first one still has processes
    sessions.pass_to(2, session=14, at=_at(300))
    found = [sessions.start_of(number, _at(400)) for number in (10, 11, 12, 13, 14, 15, None)]
    assert found == [None, 1, 1, None, None, 2, None]


def test_a_session_is_known_by_its_process_where_the_time_does_not_tell() -> None:
    sessions = JobSessions()
    sessions.pass_to(None, session=10, at=_at(100))
    sessions.know(11, 2, at=_at(100))
    assert (sessions.start_of(11, _at(200)), sessions.start_of(12, _at(200))) == (2, None)


def test_while_the_server_does_not_answer_only_what_had_written_before_is_known() -> None:
    sessions = JobSessions()
    sessions.pass_to(1, session=10, at=_at(100))
    sessions.pass_to(2, session=None, at=_at(200))
    assert sessions.is_unsure
    assert sessions.start_of(11, _at(150)) == 1
    assert sessions.start_of(12, _at(250)) is None
    assert sessions.start_of(11, _at(260)) == 1  # it was there before


def test_a_restarted_server_counts_its_sessions_anew() -> None:
    sessions = JobSessions()
    sessions.pass_to(1, session=50, at=_at(100))
    sessions.pass_to(1, session=0, at=_at(4, "log.2"))
    assert sessions.start_of(3, _at(90, "log.2")) == 1
    assert sessions.start_of(3, _at(190)) is None


def test_a_session_that_a_restarted_server_opened_before_anybody_looked_is_of_the_start_that_lives() -> None:
    sessions, log = JobSessions(), [_at(200)]
    sessions.pass_to(1, session=5, at=_at(100))
    followed = SessionsFollowed(
        sessions=sessions,
        database=cast("JobDatabase", SimpleNamespace(sessions=lambda: 6)),
        starts=cast("JobStarts", SimpleNamespace(living=[2], frozen=[], orphans=list)),
        world=cast("World", SimpleNamespace(proxy=SimpleNamespace(identify=lambda *, on: None))),
        end_of_log=lambda: log[0],
        read_of_log=lambda: log[0],
        messages=tuple,
    )
    followed.note_exit(code=1)
    log[0] = _at(500, "log.2")

    followed.look()

    assert sessions.start_of(6, _at(400, "log.2")) == 2


# -------------------------------------------------------------------------------------------- finished

GIVEN = JobInput(
    records=[SourceRecord(part=0, pos=n, id=n, key=1, fails=False, body={}) for n in (1, 2)], keys=[1]
)
EXPECTED: Mapping[str, Sequence[Sequence[Any]]] = {"1": [["a"]], "2": [["b"]]}


def _seen(*rows: dict[str, Any], **more: Any) -> EndSignals:
    replay = SinkReplay(columns=_columns())
    replay.take(_transaction(*(_insert(**row) for row in rows)))
    usual = EndSignals(
        now_us=10_000_000,
        offered_us=1_000_000,
        exited_well_us=None,
        lives=True,
        older_lives=False,
        said_done=False,
        replay=replay,
        last_row_us=5_000_000,
        last_event_us=2_000_000,
        last_start_us=2_000_000,
        faults_settled=True,
        last_fault_us=None,
        rounds=0,
        quiet_us=1_000_000,
        start_up_us=100_000,
        state=Path("/nowhere"),
        spark_end=SparkEnd(),
    )
    return replace(usual, **more)


def _how(seen: EndSignals, *, ends: str = "settles") -> str | None:
    job = JobFile(job=Job.model_validate({"command": ["x"], "ends": ends}))
    return how_finished(job, GIVEN, seen, EXPECTED)


def _how_of_keys(seen: EndSignals, expected: Mapping[str, Any] | None) -> str | None:
    job = JobFile(job=Job.model_validate({"command": ["x"], "ends": "settles", "engine": "spark"}))
    keyed = job.model_copy(update={"sink": job.sink.model_copy(update={"rows": "key"})})
    return how_finished(keyed, GIVEN, seen, expected)


def test_rows_of_keys_are_all_there_when_the_table_is_the_expected_one_and_no_sooner() -> None:
    seen = _seen({"id": 1, "name": "a"})

    assert _how_of_keys(seen, {"1": [["a"]]}) == "all-rows"
    assert _how_of_keys(seen, {"1": [["b"]]}) is None
    assert _how_of_keys(seen, {"1": [["a"]], "2": [["b"]]}) is None
    assert _how_of_keys(seen, {}) is None  # a key too many


def test_a_calm_twin_with_rows_of_keys_does_not_settle_by_silence() -> None:
    assert _how_of_keys(_seen({"id": 1, "name": "a"}), None) is None


# ----------------------------------------------------------------------------------------- rows of keys


def _update(was: dict[str, Any], now: dict[str, Any]) -> LoggedChange:
    return LoggedChange(op="update", table="enriched", was=was, now=now)


def _as_keys(*changes: LoggedChange, keys: Sequence[Any] = (8,), unique: Sequence[str] = ("k",)) -> Any:
    columns = _columns()
    logged = [_transaction(change) for change in changes]
    of_records = {str(number): key for number, key in enumerate(keys, 1)}
    return as_keys(columns.sink, columns, logged, unique=unique, keys=of_records)


def test_a_row_that_gets_the_id_of_another_record_is_of_a_key() -> None:
    one, two = {"k": 8, "id": 1, "name": "a"}, {"k": 8, "id": 2, "name": "b"}

    sink, why = _as_keys(_insert(**one), _update(one, two))

    assert (sink.rows, sink.id, sink.values) == ("key", ("k",), ("id", "name"))
    assert why == "the row of k gets other ids, first 1, then 2"


def test_one_row_that_gets_another_id_shows_it_where_the_table_has_one_for_each_key_of_the_records() -> None:
    one, two = {"k": 8, "id": 1, "name": "a"}, {"k": 8, "id": 2, "name": "b"}
    others = [_insert(k=9, id=3, name="c"), _insert(k=10, id=4, name="d")]

    assert _as_keys(_insert(**one), _update(one, two), *others, keys=[8, 8, 9, 10])[0].rows == "key"
    assert _as_keys(_insert(**one), _update(one, two), *others, keys=[8, 8, 9, 10, 11]) is None


def test_ids_that_are_the_keys_of_the_records_are_no_ids_of_records() -> None:
    sink, why = _as_keys(_insert(id=1, name="a"), keys=[1, 1], unique=["id"])

    assert (sink.rows, sink.id, sink.values) == ("key", ("id",), ("name",))
    assert why == "its 1 ids are the keys of the 2 records"


def test_ids_that_no_record_has_are_of_keys_but_a_few_are_a_mistake_of_the_job() -> None:
    rows = [_insert(id=number, name="a") for number in (1, 2, 100, 200, 300)]

    assert _as_keys(*rows, unique=["id"])[1] == "3 of 5 ids are no record's, the first is 100"
    assert _as_keys(*rows[:3], unique=["id"]) is None


def test_a_row_for_each_record_is_of_records_even_if_it_gets_other_values() -> None:
    one = {"id": 1, "name": "a", "k": 8}

    assert _as_keys(_insert(**one), _update(one, {**one, "name": "b"}), _insert(id=2, name="a", k=9)) is None
    assert _as_keys(_insert(id=1, name="a"), keys=[1], unique=["id"]) is None
    assert (
        _as_keys(_insert(id=2, name="a"), keys=[2], unique=["id"])[1]
        == "its 1 ids are the keys of the 1 records"
    )


A, B = {"id": 1, "name": "a"}, {"id": 2, "name": "b"}


def test_a_job_is_done_when_its_rows_are_there_or_it_has_settled() -> None:
    assert _how(_seen(A, B)) == "all-rows"
    assert _how(_seen(B)) == "settled"  # the last record is seen, and nothing happens any more
    assert _how(_seen(A)) is None


@pytest.mark.parametrize(
    "more",
    [
        {"offered_us": None},
        {"lives": False},
        {"faults_settled": False},
        {"last_row_us": 9_500_000},
        {"last_event_us": 9_500_000},
        {"last_start_us": 6_000_000, "start_up_us": 4_000_000},  # a start that has had no time to write
    ],
)
def test_a_job_is_not_done_before_it_has_been_quiet_for_long_enough(more: dict[str, Any]) -> None:
    assert _how(_seen(B, **more)) is None


@pytest.mark.parametrize("ends", ["exit", "file", "settles"])
def test_however_a_job_ends_it_is_not_done_before_it_was_quiet_since_the_last_fault(ends: str) -> None:
    exited = {"exited_well_us": 2_000_000, "lives": False} if ends == "exit" else {"said_done": True}

    assert _how(_seen(A, B, last_fault_us=9_500_000, **exited), ends=ends) is None
    assert _how(_seen(A, B, last_fault_us=9_000_000, **exited), ends=ends) is not None


def _given(*rounds: int) -> JobInput:
    """The two records, and sentinels with these ids, a round each."""
    made = [[SourceRecord(part=0, pos=n, id=n, key=1, fails=False, body={})] for n in rounds]
    return replace(GIVEN, sentinels=made)


@pytest.mark.parametrize(
    ("rows", "rounds", "how"),
    [
        ([A], 1, None),
        ([A, {"id": 3, "name": "c"}], 1, None),  # another worker may wait for more rows
        ([A, {"id": 3, "name": "c"}], 2, None),
        ([A, {"id": 4, "name": "d"}], 2, "settled"),
    ],
)
def test_a_job_without_its_last_row_has_settled_when_the_newest_of_two_rounds_has_come_through(
    rows: list[dict[str, Any]], rounds: int, how: str | None
) -> None:
    job = JobFile(job=Job.model_validate({"command": ["x"], "ends": "settles"}))

    assert how_finished(job, _given(3, 4), _seen(*rows, rounds=rounds), EXPECTED) == how


@pytest.mark.parametrize(
    ("more", "write", "expected", "needed"),
    [
        ({}, "append", EXPECTED, True),
        ({}, "upsert", EXPECTED, True),
        ({}, "upsert", {"1": [["a"]]}, False),  # its rows may be sums, which a further record would change
        ({"rounds": 2}, "append", EXPECTED, False),
        ({"last_row_us": 9_500_000}, "append", EXPECTED, False),
        ({"last_event_us": 6_000_000}, "append", EXPECTED, False),
        ({"lives": False}, "append", EXPECTED, False),
        ({"offered_us": None}, "append", EXPECTED, False),
    ],
)
def test_a_job_gets_further_records_only_when_it_is_quiet_and_they_would_change_no_row(
    more: dict[str, Any], write: str, expected: Mapping[str, Sequence[Sequence[Any]]], *, needed: bool
) -> None:
    told = {"job": {"command": ["x"], "ends": "settles"}, "sink": {"write": write}}
    job = JobFile.model_validate(told)

    assert needs_sentinels(job, _given(3, 4), _seen(A, **more), expected, recover_us=5_000_000) is needed


def test_an_exit_counts_only_with_code_0_after_the_last_offer() -> None:
    assert _how(_seen(exited_well_us=2_000_000, lives=False), ends="exit") == "exit"
    assert _how(_seen(exited_well_us=500_000, lives=False), ends="exit") is None
    assert _how(_seen(A, B, lives=False), ends="exit") is None
    assert _how(_seen(said_done=True), ends="file") == "file"


@pytest.mark.parametrize(
    ("more", "how"),
    [
        ({"last_row_us": 9_500_000}, None),
        ({"last_row_us": 9_500_000, "older_lives": False}, "exit"),
        ({}, "exit"),
    ],
)
def test_after_the_newest_starts_exit_an_older_start_is_waited_for_until_it_ends_or_is_quiet(
    more: dict[str, Any], how: str | None
) -> None:
    seen = _seen(A, **{"exited_well_us": 2_000_000, "lives": False, "older_lives": True, **more})
    assert _how(seen, ends="exit") == how
