"""Whole runs of runner `micro-batch`: a worker and the driver die, a defect is convicted, and plain SQL agrees."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pymysql
import pytest

from harness.database.batch_sink import BatchSink, PartOfEpoch, ReplacingSink, TextRow
from harness.database.driver import MySqlDriver
from harness.database.endpoint import Endpoint
from harness.database.epoch import Fenced
from harness.database.schema import prepare_database, run_database
from harness.history.verdict import Outcome
from harness.levels.spark.driver_process import DriverRunner, DriverSettings
from harness.levels.spark.session import local_master
from harness.scenario.catalogue import catalogue
from harness.scenario.file import apply_settings, load
from harness.scenario.model import Scenario
from harness.scenario.outcome import RunOutcome
from harness.scenario.workloads.lookups import LookupSource
from harness.tests.real_world import real_world
from harness.tests.whole_run import told, whole_run
from harness.world.world import World
from tools.defects.runners import dropping_what_was_seen

_numbers = count(1)
RECORDS = 40


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """A local world for all runs of this module, one after the other."""
    with real_world("local") as opened:
        yield opened


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DriverRunner]:
    """Runs of this module, all in one driver, unless it dies."""
    settings = DriverSettings(master=local_master(2), folder=tmp_path_factory.mktemp("driver"))
    with DriverRunner(settings).open() as opened:
        yield opened


class Rows:
    """The rows of the output table as plain SQL shows them, read just before they are dropped."""

    def __init__(self) -> None:
        self.output: list[Any] = []
        self.customers: dict[Any, Any] = {}

    def read(self, root: Endpoint) -> None:
        with (
            pymysql.connect(
                host=root.host, port=root.port, user=root.user, password=root.password, database=root.database
            ) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute("SELECT subtask, id, v FROM output ORDER BY seq")
            self.output = list(cursor.fetchall())
            cursor.execute("SELECT k, name, city, tier FROM customer")
            self.customers = {k: {"name": n, "city": c, "tier": t} for k, n, c, t in cursor.fetchall()}


def small(name: str, *settings: str) -> Scenario:
    sizes = (
        f"workload.records={RECORDS}",
        "workload.rate=400/s",
        "workload.checkpoint_every=15",
        "expects={}",
    )
    return apply_settings(load(catalogue()[name]), (*sizes, *settings))


def performed(
    scenario: Scenario, world: World, runner: DriverRunner, folder: Path, **order: Any
) -> tuple[RunOutcome, Rows]:
    rows = Rows()
    batches: dict[str, Any] = {"level": "spark", "performer": runner, "runner": "micro-batch"}
    outcome = whole_run(scenario, world=world, within=folder, inspect=rows.read, **batches, **order)
    return outcome, rows


def is_exact(scenario: Scenario, rows: Rows) -> None:
    for subtask in range(scenario.workload.subtasks):
        source = LookupSource(workload=scenario.workload, seed=7, subtask=subtask)
        elements = (source[position] for position in range(len(source)))
        lookups = [element[0] for element in elements if isinstance(element, tuple)]
        mine = [(id_, json.loads(value)) for of, id_, value in rows.output if of == subtask]
        assert mine == [(lookup.id, rows.customers[lookup.key]) for lookup in lookups]


@pytest.mark.spark
@pytest.mark.timeout(240)
def test_a_worker_dies_in_its_batch_and_every_record_is_there_once_and_in_order(
    world: World, runner: DriverRunner, tmp_path: Path
) -> None:
    scenario = small("kill-between-snapshot-and-commit", "faults.kill.when={phase: snap.end, hit: 2}")

    outcome, rows = performed(scenario, world, runner, tmp_path)

    is_exact(scenario, rows)
    assert outcome.judgement.outcome is Outcome.PASS, told(outcome)
    assert all(fault.bites for fault in outcome.faults)


@pytest.mark.spark
@pytest.mark.timeout(240)
def test_a_planted_defect_is_convicted_in_batches(world: World, runner: DriverRunner, tmp_path: Path) -> None:
    scenario = small("kill-between-snapshot-and-commit", "faults.kill.when={phase: snap.end, hit: 2}")

    outcome, _ = performed(scenario, world, runner, tmp_path, mutant="snapshot-omits-completed")

    assert outcome.judgement.outcome is Outcome.FAIL, told(outcome)


@pytest.mark.spark
@pytest.mark.timeout(240)
@pytest.mark.soak
def test_the_driver_dies_behind_its_commit_and_the_next_one_goes_on_from_what_is_stored(
    world: World, runner: DriverRunner, tmp_path: Path
) -> None:
    scenario = small("kill-after-commit", "faults.kill.when={phase: commit.post, hit: 2}")

    outcome, rows = performed(scenario, world, runner, tmp_path)

    is_exact(scenario, rows)
    assert outcome.judgement.outcome is Outcome.PASS, told(outcome)
    assert all(fault.bites for fault in outcome.faults)


@pytest.fixture
def root(world: World) -> Iterator[Endpoint]:
    with run_database(world.root.at(world.direct, ""), name=f"floodmark_batch_sink_{next(_numbers)}") as name:
        endpoint = world.root.at(world.direct, name)
        prepare_database(endpoint, subtasks=1, rows=[])
        yield endpoint


def part_of(sink: BatchSink) -> PartOfEpoch:
    (begun,) = sink.begin([0])
    rows = [TextRow(id=begun.number, j=0, text="{}")]
    return PartOfEpoch(subtask=0, attempt=begun.number, rows=rows, dead=[], position=1, elements=[])


@pytest.mark.real
def test_a_driver_that_was_followed_by_another_cannot_commit(root: Endpoint) -> None:
    old, new = BatchSink(MySqlDriver(root), seed=1), BatchSink(MySqlDriver(root), seed=1)
    old.take_over()
    part = part_of(old)
    old.transactions.close()
    new.take_over()

    with pytest.raises(Fenced):
        old.commit(1, [part])

    assert not new.has_epoch(1)
    new.close()


@pytest.mark.real
def test_an_epoch_that_is_visible_is_not_written_again_and_numbers_of_attempts_rise(root: Endpoint) -> None:
    sink, rows = BatchSink(MySqlDriver(root), seed=1), Rows()
    sink.take_over()
    first = part_of(sink)
    sink.commit(1, [first])
    second = part_of(sink)
    sink.commit(1, [second])

    rows.read(root)
    assert [id_ for _, id_, _ in rows.output] == [first.attempt]
    assert second.attempt > first.attempt + 3
    assert sink.begin([0])[0].token == first.attempt
    sink.close()


@pytest.mark.real
@pytest.mark.parametrize(
    ("kind", "stays"), [(ReplacingSink, "second"), (dropping_what_was_seen(ReplacingSink), "first")]
)
def test_of_a_batch_that_is_run_again_the_last_tries_rows_stay_and_a_dropped_output_is_the_planted_defect(
    root: Endpoint, kind: type[ReplacingSink], stays: str
) -> None:
    sink, rows = kind(MySqlDriver(root), seed=1), Rows()
    sink.take_over()
    tries = {
        name: PartOfEpoch(
            subtask=0,
            attempt=number,
            rows=[TextRow(id=number, j=0, text="{}")],
            dead=[],
            position=1,
            elements=[],
        )
        for number, name in enumerate(("first", "second"), start=1)
    }
    for part in tries.values():
        sink.commit(1, [part])

    rows.read(root)
    assert [id_ for _, id_, _ in rows.output] == [tries[stays].attempt]
    sink.close()
