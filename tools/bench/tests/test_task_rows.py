"""The task's rows, with tiny sizes: all are there, and whatever is not complete gets no time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import pytest

from reference_impl.functions.tests.examples import StreamFilter
from reference_impl.state.copy_on_write_state_map import CopyOnWriteStateMap, StateMapSnapshot
from reference_impl.state.handles import KeyedStateHandle
from reference_impl.task.operator_chain import OperatorLink
from tools.bench import rounds, snapshot_pause
from tools.bench.answer import WrongOutput
from tools.bench.operator_rate import OperatorLoad
from tools.bench.scattered import scattered
from tools.bench.snapshot_pause import changing_task
from tools.bench.task_rate import filter_then_lookup, run_bare, run_bare_pair, run_task, two_lookups
from tools.bench.task_rows import TaskSizes, task_rows

LOAD = OperatorLoad(records=60, capacity=10, latency_ms=0)
TINY = TaskSizes(
    load=LOAD,
    snapshot_keys=(100, 1_000),
    rounds=1,
    short_rounds=1,
)


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "_put_garbage_aside", lambda: None)  # pytest's heap takes long to collect
    monkeypatch.setattr(snapshot_pause, "_CHANGES_BEHIND", 3)


def test_every_goal_of_the_issue_has_its_rows() -> None:
    said: list[str] = []

    table = list(task_rows(sizes=TINY, say=said.append))

    assert [row.goal for row in table] == [0.7, 0.7, 20, 1.05]
    assert len(said) == 2
    assert all("against" in row.name for row in table[:2])


@pytest.mark.parametrize("links", [filter_then_lookup, two_lookups])
def test_a_chain_gets_a_time_for_records_that_all_came_out(
    links: Callable[[OperatorLoad], Sequence[OperatorLink]],
) -> None:
    assert run_task(LOAD, links) > 0


def test_a_chain_that_loses_a_record_gets_no_time() -> None:
    def lossy(load: OperatorLoad) -> list[OperatorLink]:
        def build(*, emit: Any, **_: Any) -> StreamFilter:
            return StreamFilter(predicate=lambda value: value != 7, emit=emit)

        return [*filter_then_lookup(load), OperatorLink(operator_id="lossy", build=build)]

    with pytest.raises(WrongOutput, match="first wrong one is at 7"):
        run_task(LOAD, lossy)


@pytest.mark.parametrize("run", [run_bare, run_bare_pair])
def test_the_bare_peers_do_the_same_work(run: Callable[[OperatorLoad], float]) -> None:
    assert run(LOAD) > 0


def test_a_snapshot_is_taken_while_the_state_changes() -> None:
    with changing_task(keys=400, changes_per_second=10_000) as task:
        paces = [task.snapshot(), task.snapshot()]

    assert all(pace.longest_pause_s > 0 for pace in paces)
    assert all(pace.changes > 0 for pace in paces)


def test_a_snapshot_that_the_changes_get_into_gets_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """C7."""

    def shared(state_map: CopyOnWriteStateMap) -> StateMapSnapshot:
        return StateMapSnapshot(directory=state_map.directory, shift=state_map.shift)

    monkeypatch.setattr(CopyOnWriteStateMap, "snapshot", shared)
    with (
        changing_task(keys=400, changes_per_second=500_000) as task,
        pytest.raises(WrongOutput, match="with another value than it had at the cut"),
    ):
        task.snapshot()


def test_a_snapshot_that_lacks_keys_gets_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    with changing_task(keys=40, changes_per_second=10_000) as task:
        monkeypatch.setattr(KeyedStateHandle, "entries", lambda *_: iter(()))

        with pytest.raises(WrongOutput, match="holds 0 of 40 keys"):
            task.snapshot()


@pytest.mark.parametrize("count", [20, 1_000])
def test_a_scattered_order_meets_each_number_once(count: int) -> None:
    order = [scattered(step, count) for step in range(count)]

    assert sorted(order) == list(range(count))
    assert all(abs(one - next_) > 1 for one, next_ in pairwise(order))
