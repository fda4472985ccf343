"""Work on Spark's executors: each result once and in order, whatever becomes of an executor."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from harness.explore.drawing import draw_scenario
from harness.history.columnar import write_parts
from harness.history.read import open_text
from harness.history.text import digest_of
from harness.history.verdict import Judgement
from harness.judge.checkers.judge import judge_file
from harness.judge.checkers.registry import CHECKERS
from harness.judge.checkers.shares.tests.test_shares import KINDS
from harness.judge.checkers.tests.blind_mutations import mutated
from harness.judge.checkers.tests.legal_histories import legal_history
from harness.judge.checkers.tests.small_histories import text
from harness.levels.sim.run import simulate_scenario
from harness.levels.spark.checking import CHECKING, check_on_spark
from harness.levels.spark.executors import SparkExecutors, open_executors, refuse_master
from harness.levels.spark.session import gateway_pid
from harness.levels.spark.shipped_code import UNPACKED
from harness.scenario.order import Order
from harness.system.choices import Choices
from harness.system.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.spark

RUNS = 24
SOAKED = 20
"""Histories of each kind that Spark judges; their shares alone are judged by the thousand in `test_shares`."""


@pytest.fixture(scope="module")
def executors() -> Iterator[SparkExecutors]:
    """Two executors, each a process of its own, without this process's import path."""
    with pytest.MonkeyPatch.context() as patched:
        patched.delenv("PYTHONPATH", raising=False)
        with open_executors("local-cluster[2,1,1024]", settings=CHECKING) as opened:
            yield opened


@pytest.fixture(scope="module", autouse=True)
def _sent_by_value() -> Iterator[None]:
    """This module is nowhere on an executor, so its functions are sent whole."""
    from pyspark import cloudpickle  # noqa: PLC0415 - only where Spark is

    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
    yield
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]


def where_our_code_is(_: Sequence[Any]) -> str:
    import harness  # noqa: PLC0415 - that of the executor

    return str(harness.__file__)


def digests_of(seeds: Sequence[int]) -> list[str]:
    """Those of the histories of random runs."""
    orders = (Order(scenario=draw_scenario(seed), level="sim", seed=seed) for seed in seeds)
    return [digest_of(ran.header, ran.events) for ran in map(simulate_scenario, orders)]


def refuse_them(items: Sequence[int]) -> int:
    raise UsageError(f"no {items[0]}", fix="another one")


def executor_processes() -> list[psutil.Process]:
    return [
        process
        for process in psutil.Process(gateway_pid()).children(recursive=True)
        if "CoarseGrainedExecutorBackend" in command_of(process)
    ]


def command_of(process: psutil.Process) -> str:
    """Its command line; empty if it has just ended."""
    with suppress(psutil.NoSuchProcess):  # a zombie, too
        return " ".join(process.cmdline())
    return ""


def once(act: Callable[[], None]) -> Callable[[], bool]:
    """A condition that always holds, and does `act` when it is asked for the first time."""
    rest = iter([act])

    def holds() -> bool:
        for todo in rest:
            todo()
        return True

    return holds


def test_executors_import_the_code_that_was_sent(executors: SparkExecutors) -> None:
    places = list(executors.map(where_our_code_is, range(4), most=1))

    assert len(places) == 4
    assert all(f"/{UNPACKED}/harness/" in place for place in places)


def test_an_error_of_the_work_arrives_as_itself(executors: SparkExecutors) -> None:
    with pytest.raises(UsageError, match="no 7") as raised:
        list(executors.map(refuse_them, [7], most=1))

    assert raised.value.fix == "another one"


def test_work_that_is_stopped_gives_the_results_before_it(executors: SparkExecutors) -> None:
    given: list[list[int]] = []

    for result in executors.map(list, range(40), most=1, goes_on=lambda: len(given) < 3):
        given.append(result)  # noqa: PERF402 - the condition looks at what is there so far

    assert given == [[0], [1], [2]]


def test_an_executor_that_is_killed_loses_and_doubles_no_run(executors: SparkExecutors) -> None:
    victim = executor_processes()[0]

    parts = list(executors.map(digests_of, range(RUNS), most=2, goes_on=once(victim.kill)))

    assert not victim.is_running()
    assert [digest for part in parts for digest in part] == digests_of(range(RUNS))


@pytest.mark.parametrize(("seed", "corrupted"), [(7, False), (10, True)])
def test_parquet_of_many_tasks_is_judged_as_on_one_machine(
    executors: SparkExecutors, tmp_path: Path, seed: int, *, corrupted: bool
) -> None:
    """A regular one, and one with a mutation that makes a subtask suspected; three subtasks each."""
    lines = legal_history(seed, sink="two-phase", mode="ordered")
    reader = open_text(text(mutated(lines, Choices(seed, "blind mutations")) if corrupted else lines))
    events = list(reader.events())
    assert reader.header is not None
    write_parts(tmp_path / "history", reader.header, events)

    checked = check_on_spark(
        executors.session, tmp_path / "history", checkers=CHECKERS, slots=executors.slots
    )

    assert checked.judged == judge_file(tmp_path / "history")
    assert isinstance(checked.judged, Judgement)
    assert checked.shares == checked.judged.accounting["subtasks"] == 3
    assert (checked.examined > 0) is corrupted


@pytest.mark.soak
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_corrupted_is_judged_by_executors_as_on_one_machine(
    executors: SparkExecutors, tmp_path: Path, kind: str
) -> None:
    """Those whose lines are well-formed, for the others cannot be written as columns; most are corrupted."""
    judged = 0
    for seed in range(SOAKED):
        reader = open_text(text(KINDS[kind](seed)))
        events = list(reader.events())
        if reader.breaches or reader.header is None:
            continue
        folder = tmp_path / str(seed)
        write_parts(folder, reader.header, events)

        checked = check_on_spark(executors.session, folder, checkers=CHECKERS, slots=executors.slots)

        assert checked.judged == judge_file(folder), seed
        judged += 1
    assert judged >= SOAKED // 4


def test_a_master_that_spark_does_not_know_is_refused() -> None:
    with pytest.raises(UsageError, match="names no master"):
        refuse_master("yarn[2]")
