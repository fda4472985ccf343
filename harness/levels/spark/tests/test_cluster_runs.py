"""A run on a small cluster loses an executor: the table is exact, and only what was sent to executors was used."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest

from harness.engine.in_world import record_in_world
from harness.engine.level import RunSite
from harness.engine.perform import perform
from harness.history.verdict import Outcome
from harness.scenario.catalogue import catalogue
from harness.scenario.file import apply_settings, load
from harness.scenario.order import Order
from harness.scenario.outcome import RunOutcome
from harness.tests.real_world import real_world
from harness.tests.table_seen import TableSeen
from harness.tests.whole_run import told
from harness.world.world import World

pytestmark = [pytest.mark.spark, pytest.mark.long, pytest.mark.timeout(600)]

SENT_ONLY = """
import os
import harness
import reference_impl

async def lookup(record):
    if "SPARK_LOCAL_IP" in os.environ:  # in an executor, and not where the calm twin asks
        for module in (harness.__file__, reference_impl.__file__, __file__):
            assert "/floodmark-code/" in module, module
    return record.key
"""
"""A user's lookup that fails in an executor which imports from anywhere but the archive."""


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """A local world."""
    with real_world("local") as opened:
        yield opened


def test_an_executor_is_killed_and_the_table_is_exact(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from harness.levels.spark.cluster_run import open_cluster_runner  # noqa: PLC0415 - pyspark, only where it is wanted

    code = tmp_path / "code"
    code.mkdir()
    (code / "sent_only.py").write_text(SENT_ONLY)
    monkeypatch.syspath_prepend(str(code))
    settings = ("workload.records=400", "faults.killed.when={checkpoint: 4}", "faults.killed.subtask=1")
    few = ("expects={records: 800, checkpoints: 10}", "decisive=[V1, V8, V9, V13]")
    scenario = apply_settings(load(catalogue()["executor-lost"]), [*settings, *few])
    order = Order(
        scenario=scenario,
        level="spark",
        seed=7,
        cluster=2,
        sut="sent_only:lookup",
        import_path=(str(code),),
    )
    table = TableSeen(scenario=scenario, seed=7)

    with open_cluster_runner(order, folder=tmp_path / "spark", note_process=lambda pid: None) as runner:
        outcome = perform(
            order,
            play=partial(record_in_world, runner=runner, inspect=table.read),
            site=RunSite(run_id="cluster-001", folder=tmp_path / "run", world=world),
        )

    assert outcome.judgement.outcome is Outcome.PASS, told(outcome)
    assert (table.lost, table.doubled, table.reordered, table.rows) == (0, 0, 0, 800)
    assert _hosts(outcome) == {"127.0.0.1", "127.0.0.2"}
    (killed,) = outcome.faults
    assert killed.bites
    assert [one["subtask"] for one in killed.evidence["replaced"]] == [1]


def _hosts(outcome: RunOutcome) -> set[str]:
    return {place["host"] for place in outcome.extras["cluster"]}
