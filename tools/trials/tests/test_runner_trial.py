"""The runner trial: which cases it runs, and what counts as bad."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest

from harness.scenario.catalogue import catalogue
from harness.scenario.file import apply_settings, load
from harness.scenario.plan import Runner
from harness.system.errors import UsageError
from harness.tests.table_seen import TableSeen
from tools.trials.runner_trial import cases_of

SMALL = ("workload.records=20", "workload.checkpoint_every=10", "expects={}")


@pytest.mark.parametrize("runner", ["micro-batch", "stateful"])
def test_no_defect_is_tried_that_a_runner_cannot_show(runner: Runner) -> None:
    named = ("raises-now-and-then", "commits-blindly", "split-loses-one", "drops-a-seen-batch")

    tried = {case.planted.name for case in cases_of(runner, names=named, planted=True) if case.planted}

    assert tried == {"raises-now-and-then", *(["drops-a-seen-batch"] if runner == "stateful" else [])}


def test_scenarios_that_a_runner_refuses_are_left_out_and_a_wrong_name_is_an_error() -> None:
    assert cases_of("micro-batch", names=["rescale-grows"], planted=False) == []

    with pytest.raises(UsageError, match="no such scenario"):
        cases_of("micro-batch", names=["clam"], planted=False)


def seen(
    name: str, rows: Iterable[tuple[int, int, int]], *, dead: Iterable[int] = (), **given: Any
) -> TableSeen:
    table = TableSeen(scenario=apply_settings(load(catalogue()[name]), SMALL), seed=7, **given)
    table.compare(list(rows), dead)
    return table


def rows_of(name: str) -> list[tuple[int, int, int]]:
    """What an exact table holds: record i is of subtask i mod 2."""
    scenario = apply_settings(load(catalogue()[name]), SMALL)
    count = scenario.workload.records * scenario.workload.subtasks
    return [(id_ % 2, id_, 0) for id_ in range(count)]


def test_a_table_that_holds_each_record_once_and_in_order_is_exact() -> None:
    table = seen("calm", rows_of("calm"))

    assert table.is_exact
    assert table.rows == 40


def test_what_is_lost_doubled_foreign_or_out_of_order_is_counted() -> None:
    rows = rows_of("calm")

    assert seen("calm", rows[1:]).lost == 1
    assert seen("calm", rows[1:], dead=[0]).is_exact
    assert seen("calm", [*rows, rows[-1]]).doubled == 1
    assert seen("calm", [*rows, (0, 4711, 0)]).foreign == 1
    assert seen("calm", [rows[2], *rows[:2], *rows[3:]]).reordered == 1
    assert seen("calm-unordered", [rows[2], *rows[:2], *rows[3:]]).is_exact
