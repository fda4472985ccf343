"""The task's rows of the performance table: a chain, snapshots under change.

Invariant: a ratio compares contenders that took turns in this process on the same input; an incomplete snapshot ends
the measurement.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from math import log10
from statistics import median

from tools.bench.operator_rate import OperatorLoad
from tools.bench.rounds import ROUNDS, Contender, Costs, Ratio, take_turns
from tools.bench.row import Row, ratio_row
from tools.bench.snapshot_pause import ChangingTask, SnapshotPace, changing_task
from tools.bench.task_rate import filter_then_lookup, run_bare, run_bare_pair, run_task, two_lookups

_LOAD = OperatorLoad(records=100_000, capacity=100, latency_ms=0)
_CHAIN_GOAL = 0.7
_PAUSE_MS_MAX = 20
_GROWTH_MAX = 1.05


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSizes:
    """The sizes of the measurements."""

    load: OperatorLoad = _LOAD
    snapshot_keys: tuple[int, int] = (100_000, 1_000_000)
    changes_per_second: int = 10_000
    rounds: int = ROUNDS
    short_rounds: int = 9
    """Rounds of short measurements, which other work on the machine disturbs most."""


def task_rows(*, sizes: TaskSizes, say: Callable[[str], None]) -> Iterator[Row]:
    """Measure all rows, in a minute or two."""
    groups = {
        "a chain of two operators": _chain_rows,
        "snapshots under change": _snapshot_rows,
    }
    for about, rows in groups.items():
        say(about)
        yield from rows(sizes)


def _chain_rows(sizes: TaskSizes) -> Iterator[Row]:
    load = sizes.load
    contenders: dict[str, Callable[[], float]] = {
        "operator": partial(run_bare, load),
        "filter and operator in a task": partial(run_task, load, filter_then_lookup),
        "two operators": partial(run_bare_pair, load),
        "both in a task": partial(run_task, load, two_lookups),
    }
    costs = take_turns(
        {name: _a_record(run, load.records) for name, run in contenders.items()}, rounds=sizes.short_rounds
    )
    names = {
        ("filter and operator in a task", "operator"): (
            "no latency: elements/s through a task with a filter and the operator, against the bare operator"
        ),
        ("both in a task", "two operators"): (
            "no latency: elements/s through a task with two asynchronous operators, against the bare two"
        ),
    }
    for (ours, theirs), name in names.items():
        yield ratio_row(
            name,
            costs.rate(ours, against=theirs),
            goal=_CHAIN_GOAL,
            rounds=sizes.short_rounds,
            detail=_costs(costs, theirs, ours),
        )


def _a_record(run: Callable[[], float], records: int) -> Contender:
    return lambda: run() / records


def _snapshot_rows(sizes: TaskSizes) -> Iterator[Row]:
    few, many = sizes.snapshot_keys
    paces: list[SnapshotPace] = []

    def noted(task: ChangingTask, keys: int) -> float:
        pace = task.snapshot()
        if keys == many:
            paces.append(pace)
        return pace.took_s / keys

    with ExitStack() as tasks:
        contenders: dict[str, Contender] = {}
        for keys in (few, many):
            task = tasks.enter_context(changing_task(keys=keys, changes_per_second=sizes.changes_per_second))
            contenders[f"{keys:,} keys"] = partial(noted, task, keys)
        costs = take_turns(contenders, rounds=sizes.rounds)
    yield _pause_row(paces[1:], sizes)  # the first is from the warm-up round
    growth = costs.cost(f"{many:,} keys", against=f"{few:,} keys")
    exponent = partial(_exponent, few=few, many=many)
    yield ratio_row(
        f"growth of the time of a snapshot from {few:,} to {many:,} keys, as an exponent",
        Ratio(median=exponent(growth.median), low=exponent(growth.low), high=exponent(growth.high)),
        unit="",
        goal=_GROWTH_MAX,
        larger_is_better=False,
        rounds=sizes.rounds,
        detail=f"a key {_costs(costs, *costs.of)}",
    )


def _pause_row(paces: list[SnapshotPace], sizes: TaskSizes) -> Row:
    pauses = [pace.longest_pause_s * 1000 for pace in paces]
    took_ms = median(pace.took_s for pace in paces) * 1000
    rate = median(pace.changes / pace.took_s for pace in paces)
    return Row(
        name=(
            f"longest pause while {sizes.snapshot_keys[1]:,} keys are saved and {sizes.changes_per_second:,} a second"
            " change"
        ),
        value=median(pauses),
        unit="ms",
        rounds=sizes.rounds,
        goal=_PAUSE_MS_MAX,
        larger_is_better=False,
        spread=(min(pauses), max(pauses)),
        detail=f"the snapshot took {took_ms:,.0f} ms, with {rate:,.0f} changes/s",
    )


def _exponent(cost: float, *, few: int, many: int) -> float:
    """The exponent of growth, from the ratio of the cost per key."""
    return 1 + log10(cost) / log10(many / few)


def _costs(costs: Costs, *names: str) -> str:
    return ", ".join(f"{name} {costs.microseconds(name):.2f} us" for name in names)
