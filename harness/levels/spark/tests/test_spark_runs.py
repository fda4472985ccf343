"""Whole runs at level `spark`, and the acceptance test: SIGKILL between snapshot and commit, thirty times.

After each kill the table itself is asked, by SQL that is written here and shares no code with the checkers.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pymysql
import pytest

from harness.database.endpoint import Endpoint
from harness.history.event import Failed, Start
from harness.history.read import read_whole
from harness.history.verdict import Outcome
from harness.scenario.catalogue import catalogue
from harness.scenario.file import apply_settings, load
from harness.scenario.model import Scenario
from harness.scenario.outcome import RunOutcome
from harness.scenario.workloads.lookups import Lookup, LookupSource
from harness.system.choices import Choices, fresh_seed
from harness.tests.real_world import real_world
from harness.tests.tampered_tables import Case, Touching, hides, names_the_row, scenario_with
from harness.tests.whole_run import told, whole_run
from harness.world.world import World

if TYPE_CHECKING:
    from harness.levels.spark.job import SparkRunner

pytestmark = pytest.mark.spark

KILLS = 30
KILLS_EVERY_TIME = 10
"""The others are for the soak."""
RECORDS = 150
_numbers = count(1)

Performed = Callable[..., RunOutcome]


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """A local world for all runs of this module, one after the other."""
    with real_world("local") as opened:
        yield opened


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkRunner]:
    """Runs of this module, all in one Spark session."""
    from harness.levels.spark.job import SparkRunner  # noqa: PLC0415 - pyspark, only where it is wanted
    from harness.levels.spark.session import ended_workers, spark_session  # noqa: PLC0415

    folder = tmp_path_factory.mktemp("spark")
    with spark_session(slots=4, folder=folder) as session:
        yield SparkRunner(session, ended=ended_workers(folder))


@pytest.fixture(scope="module")
def seed(request: pytest.FixtureRequest) -> int:
    """Where and when is killed; `--floodmark-seed` repeats it."""
    given = request.config.getoption("--floodmark-seed")
    return fresh_seed() if given is None else int(given)


@pytest.fixture
def performed(world: World, runner: SparkRunner, tmp_path: Path) -> Performed:
    """Runs an order in the shared world and session."""
    return partial(whole_run, world=world, within=tmp_path, level="spark", performer=runner)


def small(*settings: str) -> Scenario:
    """`kill-between-snapshot-and-commit`, over in a second: 165 positions, 11 checkpoints of each subtask."""
    sizes = (
        f"workload.records={RECORDS}",
        "workload.rate=600/s",
        "workload.service=10ms",
        "workload.checkpoint_every=15",
    )
    judged = ("decisive=[V1, V8, V10]", "expects={}")
    return apply_settings(load(catalogue()["kill-between-snapshot-and-commit"]), [*sizes, *judged, *settings])


def test_a_kill_between_snapshot_and_commit_passes_as_shipped(performed: Performed) -> None:
    outcome = performed(load(catalogue()["kill-between-snapshot-and-commit"]))

    assert outcome.judgement.outcome is Outcome.PASS, told(outcome)
    (kill,) = outcome.faults
    assert kill.bites
    assert (kill.evidence["attempt"], kill.evidence["next_attempt"]) == (1, 2)


@pytest.mark.parametrize(
    ("sink", "case"),
    [
        (
            "atomic",
            Case(table="output", act="delete", shows=(("V8", "row-missing"), ("V9", "row-deleted"))),
        ),
        ("two-phase", Case(table="output", act="swap", shows=(("V8", "row-disordered"),))),
        (
            "idempotent",
            Case(table="output", act="alter", shows=(("V8", "row-altered"), ("V9", "row-altered"))),
        ),
        ("idempotent", Case(table="dead_letter", act="delete", shows=(("V20", "row-missing"),))),
    ],
)
def test_a_changed_row_fails_the_run_and_is_named_trust1(performed: Performed, sink: str, case: Case) -> None:
    touching = Touching(case.act, case.table)

    outcome = performed(scenario_with(sink), before_reading=touching)

    names_the_row(outcome.judgement, case, touching.touched)


def test_a_table_that_cannot_be_read_is_unknown_trust1(performed: Performed) -> None:
    outcome = performed(scenario_with("atomic"), before_reading=hides("output"))

    assert outcome.judgement.outcome is Outcome.UNKNOWN, told(outcome)


class Table:
    """The tables of a run as plain SQL shows them, read just before they are dropped."""

    def __init__(self) -> None:
        self.output: list[Any] = []
        self.customers: list[Any] = []
        self.epochs: list[Any] = []

    def read(self, root: Endpoint) -> None:
        with (
            pymysql.connect(
                host=root.host, port=root.port, user=root.user, password=root.password, database=root.database
            ) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute("SELECT subtask, id, j, v FROM output ORDER BY seq")
            self.output = list(cursor.fetchall())
            cursor.execute("SELECT k, name, city, tier FROM customer ORDER BY k")
            self.customers = list(cursor.fetchall())
            cursor.execute("SELECT subtask, epoch, token FROM epoch ORDER BY subtask, epoch")
            self.epochs = list(cursor.fetchall())


@pytest.mark.parametrize(
    "number",
    [
        *range(KILLS_EVERY_TIME),
        *(pytest.param(number, marks=pytest.mark.soak) for number in range(KILLS_EVERY_TIME, KILLS)),
    ],
)
def test_after_a_kill_between_snapshot_and_commit_every_record_is_there_once_in_order_and_right(
    performed: Performed, seed: int, number: int
) -> None:
    choices = Choices(seed, f"kill {number}")
    subtask, hit = choices.index(2), choices.between(1, 11)
    print(f"seed {seed}, kill {number}: subtask {subtask} at its snapshot {hit}")  # noqa: T201 - shown when it fails
    scenario = small(
        f"faults.kill.subtask={subtask}", f"faults.kill.when={{phase: snapshot-taken, hit: {hit}}}"
    )
    table = Table()

    outcome = performed(scenario, seed=seed + number, inspect=table.read)

    asked = {s: records_of(scenario, seed + number, s) for s in range(2)}
    for s, lookups in asked.items():
        assert [id_ for of, id_, _, _ in table.output if of == s] == [lookup.id for lookup in lookups]
    assert {j for _, _, j, _ in table.output} == {0}
    row_of = {key: {"name": name, "city": city, "tier": tier} for key, name, city, tier in table.customers}
    right = {lookup.id: row_of[lookup.key] for lookups in asked.values() for lookup in lookups}
    assert {id_: json.loads(value) for _, id_, _, value in table.output} == right
    tokens = [(epoch, token) for of, epoch, token in table.epochs if of == subtask]
    assert tokens == [(epoch, 1 if epoch < hit else 2) for epoch in range(1, 12)]
    assert all(fault.bites for fault in outcome.faults), told(outcome)
    assert outcome.judgement.outcome is Outcome.PASS, told(outcome)


def records_of(scenario: Scenario, seed: int, subtask: int) -> list[Lookup]:
    """What the source of `subtask` sends, in its order."""
    source = LookupSource(workload=scenario.workload, seed=seed, subtask=subtask)
    elements = (source[position] for position in range(len(source)))
    lookups = [element[0] for element in elements if isinstance(element, tuple)]
    assert [lookup.id for lookup in lookups] == [index * 2 + subtask for index in range(RECORDS)]
    return lookups


def test_a_planted_defect_is_convicted(performed: Performed) -> None:
    outcome = performed(
        load(catalogue()["kill-between-snapshot-and-commit"]), mutant="snapshot-omits-completed"
    )

    assert outcome.judgement.outcome is Outcome.FAIL, told(outcome)
    assert outcome.as_expected


@pytest.fixture
def theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], dict[str, Any]]:
    """Writes a user's module into a folder on this process's path alone; what an order needs to use its `lookup`."""

    def module(body: str) -> dict[str, Any]:
        name = f"their_spark_lookup_{next(_numbers)}"
        code = tmp_path / "code"
        code.mkdir()
        (code / f"{name}.py").write_text(body)
        monkeypatch.syspath_prepend(str(code))
        return {"sut": f"{name}:lookup", "import_path": (str(code),)}

    return module


THEIR_TROUBLE = """
async def lookup(record):
    if record.id == 41:
        raise ValueError("their own trouble")
    return record.key
"""


def test_a_users_own_lookup_works_inside_spark(
    performed: Performed, theirs: Callable[[str], dict[str, Any]]
) -> None:
    outcome = performed(small(), **theirs("async def lookup(record):\n    return record.key\n"))

    assert outcome.judgement.outcome is Outcome.PASS, told(outcome)


def test_a_users_lookup_that_fails_ends_its_attempts_after_four_and_does_not_pass(
    performed: Performed, theirs: Callable[[str], dict[str, Any]]
) -> None:
    outcome = performed(small("faults.kill.subtask=0"), **theirs(THEIR_TROUBLE))

    assert outcome.judgement.outcome is not Outcome.PASS, told(outcome)
    assert "their own trouble" in (outcome.error or "")
    _, events = read_whole(outcome.history)
    assert sum(isinstance(event, Failed) and event.s == 1 for event in events) == 4
    assert sum(isinstance(event, Start) and event.s == 1 for event in events) == 4


def test_the_passwords_are_in_no_file_of_a_run_or_of_sparks(
    performed: Performed, world: World, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Last, so that Spark has written what it writes."""
    performed(small())

    files = [path for path in tmp_path_factory.getbasetemp().rglob("*") if path.is_file()]
    assert any(path.name == "history.jsonl" for path in files)
    for secret in (world.app.password, world.root.password):
        assert [path for path in files if secret.encode() in path.read_bytes()] == []
