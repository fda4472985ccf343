"""What a job is given: records, environment, scenarios; and what is seen of its lookups."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest
from pydantic import ValidationError
from pymysql import InterfaceError, OperationalError

from harness.database.endpoint import Endpoint
from harness.levels.job import job_database, statement_log
from harness.levels.job.binlog import LoggedChange, LoggedTransaction, LogPosition
from harness.levels.job.environment import job_environment, refuse_templates
from harness.levels.job.job_database import TableFacts
from harness.levels.job.job_file import JobFile, SinkTable
from harness.levels.job.job_pitfalls import connects_for_each_call, cut_values, unfinished
from harness.levels.job.job_scenario import JobScenario
from harness.levels.job.job_scenarios import apply_job_settings, load_jobs
from harness.levels.job.offering import Offering
from harness.levels.job.records import read_input
from harness.levels.job.sink_rows import SinkColumns
from harness.levels.job.statement_log import SentStatement, is_lookup, keys_asked_for, literals
from harness.levels.job.traffic import Message
from harness.levels.job.unmet import refuse_moments
from harness.scenario.workloads.shape import Lookup
from harness.scenario.yaml_text import ScenarioProblems
from harness.system.errors import CannotHere, UsageError, WorldError

SERVER = Endpoint(host="127.0.0.1", port=33, user="u", password="p/w", database="db")
SCENARIO = JobScenario.model_validate(
    {"job_scenario": "x", "about": "Something is done to it.", "records": 30, "keys": 5}
)


def _job(folder: Path = Path(), **tables: Any) -> JobFile:
    file = JobFile.model_validate({"job": {"command": ["x"]}, **tables})
    return file.model_copy(update={"folder": folder})


def test_records_are_those_of_the_seed_and_a_key_stays_in_its_partition() -> None:
    job = _job(source={"partitions": 3, "fields": {"id": "nr"}})
    one, again, other = (read_input(job, SCENARIO, seed=seed) for seed in (1, 1, 2))
    assert one == again != other
    parts: dict[Any, set[int]] = {}
    for record in one.records:
        parts.setdefault(record.key, set()).add(record.part)
        assert record.body["nr"] == record.id
    assert all(len(found) == 1 for found in parts.values())
    assert {part for found in parts.values() for part in found} == {0, 1, 2}


def test_a_users_text_may_hold_the_line_separator_of_unicode(tmp_path: Path) -> None:
    (tmp_path / "own.jsonl").write_text('{"id": 1, "key": 1, "text": "a\u2028b"}\n', "utf-8")

    given = read_input(_job(tmp_path, source={"records": "own.jsonl"}), SCENARIO, seed=1)

    assert [record.body["text"] for record in given.records] == ["a\u2028b"]


def test_expected_gets_one_form_of_record_for_lookups_and_jobs() -> None:
    def expected(record: Any, rows: list[Any]) -> list[Any]:
        return [record["id"], record.key, *rows]

    of_job = read_input(_job(source={"fields": {"id": "nr", "key": "customer"}}), SCENARIO, seed=1).records[0]
    of_lookup = Lookup(id=of_job.id, key=of_job.key, service_ms=0)

    assert expected(of_job.stated, []) == expected(of_lookup, []) == [of_job.id, of_job.key]
    assert of_job.stated.nr == of_job.stated["nr"] == of_job.id
    both: list[Any] = [of_job.stated, of_lookup]
    for record in both:
        with pytest.raises(AttributeError, match="amount"):
            _ = record.amount
        with pytest.raises(KeyError, match="amount"):
            _ = record["amount"]


def test_a_record_for_the_table_needs_the_field_of_its_id_column(tmp_path: Path) -> None:
    (tmp_path / "own.jsonl").write_text('{"order_id": 1, "line": 2, "key": 1}\n')
    source = {"kind": "table", "records": "own.jsonl"}

    with pytest.raises(UsageError, match="own.jsonl:1: this record has no `id`"):
        read_input(_job(tmp_path, source=source, sink={"id": ["order_id", "line"]}), SCENARIO, seed=1)


@pytest.mark.parametrize(
    ("lines", "says"),
    [
        (['{"id": 1, "key": 1}', '{"id": 1, "key": 2}'], "records 1 and 2 have the same id 1"),
        (['{"id": 1, "key": 1}', '{"id": "1", "key": 2}'], "records 1 and 2 have the same id 1"),
        (['{"id": 1}'], "own.jsonl:1: this record has no `key`"),
        (["{"], "own.jsonl:1: this is not JSON"),
        ([], "holds no record"),
    ],
)
def test_what_is_wrong_with_a_users_records_is_told(tmp_path: Path, lines: list[str], says: str) -> None:
    (tmp_path / "own.jsonl").write_text("\n".join(lines))
    with pytest.raises(UsageError, match=says):
        read_input(_job(tmp_path, source={"records": "own.jsonl"}), SCENARIO, seed=1)


def test_an_id_of_several_columns_is_a_list_of_their_fields(tmp_path: Path) -> None:
    (tmp_path / "own.jsonl").write_text(json.dumps({"id": 1, "key": "a", "day": "mo", "fails": True}))
    job = _job(tmp_path, source={"records": "own.jsonl"}, sink={"id": ["k", "day"]})
    [record] = read_input(job, SCENARIO, seed=1).records
    assert (record.id, record.key, record.fails) == (["a", "mo"], "a", True)


def test_further_records_have_ids_and_times_behind_all_others_and_keep_their_partition(
    tmp_path: Path,
) -> None:
    lines = [
        {"id": f"A-{number:03}", "key": number % 3, "ts": number, "fails": number == 9}
        for number in range(10)
    ]
    (tmp_path / "own.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    job = _job(tmp_path, source={"records": "own.jsonl", "partitions": 2})

    given = read_input(job, SCENARIO, seed=1)

    assert [len(some) for some in given.sentinels] == [2, 4, 8, 16, 32, 64, 128]
    first, *_ = further = [one for some in given.sentinels for one in some]
    assert (first.id, first.body["id"], first.body["ts"] > 9) == ("A-010", "A-010", True)
    assert len({one.id for one in [*given.records, *further]}) == 10 + len(further)
    parts = {record.key: record.part for record in given.records}
    assert all(one.part == parts[one.key] and not one.fails for one in further)
    for part, of_part in given.last_of_parts.items():
        assert [one.pos for one in further if one.part == part] == [
            of_part[0].pos + 1 + n for n in range(127)
        ]


def test_records_whose_ids_end_in_no_number_have_no_further_ones(tmp_path: Path) -> None:
    (tmp_path / "own.jsonl").write_text('{"id": "a", "key": 1}\n')

    assert read_input(_job(tmp_path, source={"records": "own.jsonl"}), SCENARIO, seed=1).sentinels == []


def test_only_a_table_has_gaps() -> None:
    with pytest.raises(ValidationError, match="a source of kind `folder` has no gaps that fill later"):
        _job(source={"gaps": True})


def _environment(job: JobFile, **base: str) -> dict[str, str]:
    return job_environment(
        job,
        base=base,
        links={"sink": SERVER, "lookups": SERVER},
        source={"FLOODMARK_JOB_SOURCE_FOLDER": "/in"},
        state=Path("/state"),
        done=Path("/done"),
        start=2,
        run_id="r",
    )


def test_a_jobs_own_variables_are_filled_in_and_no_option_of_the_harness_is_passed_on() -> None:
    job = _job(job={"command": ["x"], "env": {"A": "{sink.url}|{sink.port}|{source.folder}|{state}|{other}"}})
    told = _environment(job, FLOODMARK_SEED="1", HOME="/home", PATH="/bin")
    assert told["A"] == "mysql://u:p%2Fw@127.0.0.1:33/db|33|/in|/state|{other}"
    assert "FLOODMARK_SEED" not in told
    assert told["HOME"] == "/home"
    assert told["PATH"].split(":") == [str(Path(sys.executable).parent), "/bin"]
    assert (told["FLOODMARK_JOB_START"], told["PYSPARK_PYTHON"]) == ("2", sys.executable)


def test_a_job_finds_the_programs_of_this_python_before_those_of_another() -> None:
    ours = str(Path(sys.executable).parent)
    told = _environment(_job(job={"command": ["x"]}), PATH=f"/another/bin:{ours}")
    assert told["PATH"].split(":")[0] == ours


def test_a_template_that_is_not_known_is_told_with_what_was_meant() -> None:
    job = _job(job={"command": ["x"], "env": {"A": "{sink.uri}", "B": "{source.topic}"}})
    with pytest.raises(UsageError, match=r"A = .*did you mean \{sink.url\}\?; job.env: B = "):
        refuse_templates(job)


def test_a_job_takes_records_keys_and_faults_of_an_ordinary_scenario() -> None:
    [(path, scenario)] = load_jobs(["kill-idle"])
    assert (path.stem, scenario.scenario) == ("kill-idle", "kill-idle")
    assert scenario.faults


def test_of_an_unknown_name_the_nearest_scenario_of_jobs_is_named_h5() -> None:
    with pytest.raises(UsageError, match="did you mean `killed-after-commit`"):
        load_jobs(["killed-after-comit"])


def test_what_no_job_can_do_of_an_ordinary_scenario_is_refused_at_its_line() -> None:
    with pytest.raises(
        ScenarioProblems, match=r"connections-cut.yaml:\d+:\d+: a `call` happens inside an operator"
    ):
        load_jobs(["connections-cut"])


def test_every_mistake_of_a_job_scenario_is_told_at_its_line(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text("job_scenario: s\nabout: Something is done to it.\nrecord: 5\nbudget: 5\n")
    with pytest.raises(ScenarioProblems) as told:
        load_jobs([file])
    assert [problem.line for problem in told.value.problems] == [3, 4]
    assert "did you mean `records`?" in str(told.value)


def test_a_setting_changes_a_field_of_a_job_scenario() -> None:
    assert apply_job_settings(SCENARIO, ["records=7", "budget=5s"]).records == 7
    with pytest.raises(ScenarioProblems, match="unknown field"):
        apply_job_settings(SCENARIO, ["workload.records=7"])


@pytest.mark.parametrize(
    ("statement", "is_one"),
    [
        ("SELECT name FROM customer WHERE k = 5", True),
        ("select c.name from `db`.`customer` c where c.k='x'", True),
        ("SELECT 1 FROM customers", False),
        ("INSERT INTO t SELECT * FROM customer", False),
    ],
)
def test_a_lookup_is_a_select_of_a_looked_up_table(statement: str, *, is_one: bool) -> None:
    assert is_lookup(statement, ["customer"]) == is_one


def test_the_keys_of_a_lookup_are_the_literals_of_its_condition() -> None:
    assert list(literals("SELECT 3 FROM t WHERE k IN (5, -6, 'it\\'s') AND c2 = 7")) == [
        "5",
        "-6",
        "it\\'s",
        "7",
    ]


class _Database:
    """A database whose general log has these statements; it is its own connection and cursor."""

    def __init__(self, *statements: str, fails_at: str = "") -> None:
        self._logged = [(0, 1, text) for text in statements]
        self._left: list[tuple[Any, ...]] = []
        self._fails_at = fails_at
        self.done: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Nothing is held."""

    def cursor(self) -> Self:
        return self

    def execute(self, statement: str, values: object = ()) -> None:
        del values
        self.done.append(statement)
        if statement == self._fails_at:
            raise OperationalError(2013, "Lost connection to MySQL server during query")
        of_log = statement.endswith("ORDER BY event_time")
        self._left = list(self._logged) if of_log else [(1,)]

    def fetchone(self) -> tuple[Any, ...] | None:
        return self._left.pop(0) if self._left else None

    def fetchmany(self, size: int) -> list[tuple[Any, ...]]:
        some, self._left = self._left[:size], self._left[size:]
        return some


@pytest.mark.parametrize(
    ("most", "seen", "trouble"), [(2, 2, ""), (1, 1, "after the job's first 1 statements")]
)
def test_lookups_that_are_too_many_to_be_counted_are_told(
    monkeypatch: pytest.MonkeyPatch, most: int, seen: int, trouble: str
) -> None:
    database = _Database("SELECT name FROM customer WHERE k = 5", "SELECT name FROM customer WHERE k = 6")
    monkeypatch.setattr(statement_log, "connect", lambda *given, **more: database)
    monkeypatch.setattr(statement_log, "_MAX", most)
    counting = statement_log.StatementLog(root=SERVER, user="app")

    with counting:
        keys = [
            keys_asked_for(one.text, tables=["customer"], keys={"5": 5, "6": 6}) for one in counting.read()
        ]

    assert keys == [[5], [6]][:seen]
    assert trouble in counting.trouble
    assert bool(counting.trouble) == bool(trouble)
    assert database.done[-1] == "SET GLOBAL general_log = 0"


@pytest.mark.parametrize("fails_at", ["the run of the job", "SET GLOBAL general_log = 1"])
def test_the_general_log_is_switched_off_when_a_life_fails_before_it_is_read(
    monkeypatch: pytest.MonkeyPatch, fails_at: str
) -> None:
    """Also if switching it on was not acknowledged: the server may have done it."""
    database = _Database(fails_at=fails_at)
    monkeypatch.setattr(statement_log, "connect", lambda *given, **more: database)
    counting = statement_log.StatementLog(root=SERVER, user="app")

    with pytest.raises(WorldError), counting:
        raise WorldError("the job cannot be started")

    assert database.done[-1] == "SET GLOBAL general_log = 0"


def test_a_general_log_that_cannot_be_switched_off_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    database = _Database(fails_at="SET GLOBAL general_log = 0")
    monkeypatch.setattr(statement_log, "connect", lambda *given, **more: database)

    with statement_log.StatementLog(root=SERVER, user="app") as counting:
        pass

    assert "The server's general log could not be switched off: " in counting.trouble


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (
            OperationalError(1142, "TRIGGER command denied"),
            "OperationalError: (1142, 'TRIGGER command denied')",
        ),
        (InterfaceError(0, ""), "InterfaceError: (0, '')"),
        (ConnectionResetError("reset by peer"), "ConnectionResetError: reset by peer"),
    ],
    ids=["refused", "closed connection", "reset"],
)
def test_a_trigger_that_could_not_be_made_is_told_with_the_error_that_it_was(
    error: Exception, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error of a closed connection has no words of its own."""

    def connect(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(job_database, "connect", connect)

    assert job_database.JobDatabase(root=SERVER).install_audit("enriched") == told


def _asked(connections: int, calls: int) -> list[Message]:
    return [
        Message(
            t_us=n, link="lookups", side="request", n=n, connection=n % connections, peer=1, command="query",
            statement="select", table="customer",
        )
        for n in range(calls)
    ]  # fmt: skip


def _sent(statement: str, count: int, tables: str = "enriched") -> list[Message]:
    return [
        Message(
            t_us=n, link="sink", side="request", n=n, connection=1, peer=1, command="query", statement=statement,
            writes=statement == "insert",
            commits=statement == "commit",
            table="",
            tables=(tables,),
        )
        for n in range(count)
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("later", "is_open", "behind"),
    [
        ([], True, None),
        (["select"], True, None),
        (["commit"], False, None),
        (["rollback"], True, "rollback"),
        (["begin"], True, "begin"),
        (["set"], True, "set"),  # it may set autocommit, which commits
        (["select", "create", "insert", "commit"], True, "create"),
    ],
)
def test_writes_are_unfinished_if_no_commit_follows_on_their_connection(
    later: list[str], *, is_open: bool, behind: str | None
) -> None:
    sent = [*_sent("insert", 2), *(message for word in later for message in _sent(word, 1, "enriched"))]
    sent = [replace(message, n=n) for n, message in enumerate(sent)]

    found = list(unfinished(sent, dict.fromkeys(range(len(sent)), 0), table="enriched"))

    assert bool(found) is is_open
    for one in found:
        assert one.writes == sent[:2]
        assert (one.behind and one.behind.statement) == behind


@pytest.mark.parametrize(
    ("changed", "codes", "table"),
    [
        ({}, {0: 1062}, "enriched"),
        ({}, {}, "enriched"),
        ({}, {0: 0}, "offsets"),
        ({"commits": 1}, {0: 0}, "enriched"),
    ],
    ids=["failed", "not answered", "of another table", "committed by the server"],
)
def test_a_write_that_did_nothing_or_was_committed_is_not_unfinished(
    changed: dict[str, Any], codes: dict[int, int], table: str
) -> None:
    (insert,) = _sent("insert", 1)

    assert not list(unfinished([replace(insert, **changed)], codes, table=table))


def test_a_deadlock_ends_the_writes_before_it() -> None:
    sent = [replace(message, n=n) for n, message in enumerate(_sent("insert", 3))]

    found, _ = unfinished(sent, {0: 0, 1: 1213, 2: 0}, table="enriched")

    assert (found.writes, found.behind, found.code) == (sent[:1], sent[1], 1213)


def test_a_moment_that_the_job_is_far_from_is_refused_before_the_run() -> None:
    when = {"sink": "commit", "nth": 2, "moment": "after"}
    scenario = JobScenario.model_validate(
        {
            "job_scenario": "x",
            "about": "Something is done to it.",
            "faults": [{"id": "kill", "do": "kill_driver", "when": when}],
        }
    )
    refuse_moments(scenario, _sent("commit", 2), table="enriched", named=True)
    refuse_moments(scenario, _sent("commit", 2, "?"), table="enriched", named=True)
    refuse_moments(scenario, _sent("commit", 2, "offsets"), table="", named=True)
    with pytest.raises(CannotHere, match="changes enriched.*sends 1 of them\n.*--set faults.kill.when.nth=1"):
        refuse_moments(
            scenario, [*_sent("commit", 1), *_sent("commit", 9, "offsets")], table="enriched", named=True
        )
    with pytest.raises(CannotHere, match="sends 0 of them\n.*choose a scenario"):
        refuse_moments(scenario, _sent("insert", 9), table="enriched", named=True)


def test_a_job_that_connects_for_each_lookup_has_a_pitfall() -> None:
    [pitfall] = connects_for_each_call(_asked(200, 200))
    assert (pitfall.name, pitfall.evidence) == ("connects-for-each-call", {"opened": 200, "calls": 200})
    assert not list(connects_for_each_call(_asked(10, 200)))


def test_an_offer_is_spread_from_the_first_message_on_and_over_the_time_in_which_the_job_works(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def offered(*moments: tuple[float, float | None, float]) -> list[int]:
        """How many of 200 records, to be spread over 2 s, are there at a time, by the first message and the work."""
        nothing: Any = SimpleNamespace(
            note_offer=lambda **told: None, offer=lambda some, is_last: True, end=lambda: None
        )
        asked: Any = SimpleNamespace(scenario=SimpleNamespace(offer=2_000), job=_job())
        given: Any = SimpleNamespace(records=[*read_input(_job(), SCENARIO, seed=1).records[:1]] * 200)
        offering = Offering(
            order=asked,
            given=given,
            source=nothing,
            recording=nothing,
            expected={},
            reads=lambda since_us: [],
            gap_max_us=0,
        )
        found = []
        for at_s, spoke_s, work_s in moments:
            monkeypatch.setattr(
                "harness.levels.job.offering.monotonic_us", lambda at_s=at_s: round(at_s * 1e6)
            )
            spoke_us = None if spoke_s is None else round(spoke_s * 1e6)
            offering.offer_due(began_us=0, spoke_us=spoke_us, work_us=round(work_s * 1e6))
            found.append(offering.offered)
        return found

    assert offered((0, None, 0), (19, None, 0), (19.5, 19, 0), (21, 19, 0)) == [10, 10, 60, 200]
    assert offered((0, 0, 4), (1, 0, 4), (2, 0, 4)) == [10, 60, 110]
    # It may wait for a whole batch before it connects.
    assert offered((19, None, 0), (21, None, 0)) == [10, 110]


@pytest.mark.parametrize(
    ("statement", "is_cut"),
    [
        ("INSERT IGNORE INTO enriched (id, k, name) VALUES (5, 7, 'Anna')", True),
        ("UPDATE `enriched` SET name = 'Anna' WHERE id = 5 AND k = 7", True),
        ("INSERT INTO enriched VALUES (5, 7, 'An')", False),
        ("INSERT INTO enriched VALUES (5, 7, 'An  ')", False),
        ("INSERT INTO enriched VALUES (5, 7, \"An\", 'Anna')", False),
        ("INSERT INTO enriched VALUES (5, 7, LEFT('Anna', 2))", False),
        ("INSERT INTO enriched SELECT 5, 7, name, 'Anna' FROM customer", False),
        ("INSERT INTO enriched VALUES (5, 7, @name, 'Anna')", False),
        ("INSERT INTO enriched VALUES (6, 7, 'Anna')", False),
        ("INSERT INTO other VALUES (5, 7, 'Anna')", False),
    ],
)
def test_a_value_is_cut_if_the_statement_that_wrote_it_holds_more(statement: str, *, is_cut: bool) -> None:
    sink = SinkTable(id=("id",), values=("k", "name"))
    change = LoggedChange(op="insert", table="enriched", now={"id": 5, "k": 7, "name": "An"})
    end = LogPosition(file="log", offset=1)
    run: Any = SimpleNamespace(
        order=SimpleNamespace(job=SimpleNamespace(sink=sink)),
        seen=SimpleNamespace(
            columns=SinkColumns(sink=sink, types={}, offered={}),
            facts=TableFacts(lengths={"name": 2}),
            transactions=[LoggedTransaction(end=end, seen_us=0, changes=(change,), session=3)],
        ),
        statements=[SentStatement(t_us=0, session=3, text=statement)],
    )

    assert cut_values(run) == ({"5": {"name": "Anna"}} if is_cut else {})
