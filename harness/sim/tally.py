"""A tally: very many simulated runs of a few scenarios, counted; only those that matter are kept whole.

Invariant: every order is run and judged once, whatever the number of processes; a run is worth keeping if it is not
as it should be. Runs are deterministic, so one that is to be kept is simply run again.
"""

from __future__ import annotations

import gc
import multiprocessing
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from harness.runs.order import Order
from harness.runs.outcome import seen_as_expected
from harness.sim.perform import judged
from harness.sim.scenario_run import simulate_scenario
from harness.sim.variant import HONEST, Variant
from harness.verdict import Outcome

__all__ = ["Counted", "Planted", "Plants", "Tally", "count", "tallies", "worth_keeping"]

_CHUNK: Final = 8
_COLLECT_EVERY: Final = 25
"""Runs between two collections: a run's objects hold each other, and none of them outlives it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Planted:
    """What runs in the reference's place."""

    variant: Variant = HONEST
    convicts: tuple[str, ...] = ()
    """The invariants meant for it; none: it is to pass."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """One run, as far as it is counted."""

    order: int
    """Its number among the orders."""
    outcome: Outcome
    as_expected: bool
    events: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """What came of all runs of one scenario, with one planted defect or none."""

    scenario: str
    mutant: str | None
    counts: dict[Outcome, int]
    events: int
    unexpected: int
    first: Order | None
    """The first that is not as it should be."""

    @property
    def runs(self) -> int:
        """How many there were."""
        return sum(self.counts.values())


Plants = Mapping[str | None, Planted]
"""By the mutant's name that an order gives."""


def count(
    orders: Sequence[Order], planted: Plants, *, jobs: int, goes_on: Callable[[], bool]
) -> Iterator[Counted]:
    """Run and judge `orders` in their order, as long as it `goes_on`."""
    chunks = [range(start, min(start + _CHUNK, len(orders))) for start in range(0, len(orders), _CHUNK)]
    if jobs == 1 or len(chunks) == 1:
        with _uncollected():
            for number in range(len(orders)):
                if not goes_on():
                    return
                yield _counted(orders[number], number, planted)
                if number % _COLLECT_EVERY == 0:
                    gc.collect()
        return
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(
        max_workers=min(jobs, len(chunks)), mp_context=context, initializer=_share, initargs=(orders, planted)
    ) as pool:
        for counted in pool.map(_count_chunk, chunks):
            yield from counted
            if not goes_on():
                pool.shutdown(cancel_futures=True)
                return


class _Shared:
    """What a worker was forked with. Mutable once."""

    orders: Sequence[Order] = ()
    planted: Plants = {}  # noqa: RUF012 - set once, in the worker


def _share(orders: Sequence[Order], planted: Plants) -> None:
    """By fork and not by pickle: a variant holds functions. Ctrl-C is for the parent, who stops asking."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _Shared.orders, _Shared.planted = orders, planted
    gc.freeze()
    gc.disable()


def _count_chunk(chunk: range) -> list[Counted]:
    counted = [_counted(_Shared.orders[number], number, _Shared.planted) for number in chunk]
    gc.collect()
    return counted


@contextmanager
def _uncollected() -> Iterator[None]:
    was_on = gc.isenabled()
    gc.disable()
    gc.freeze()  # what is there already is not looked at again and again
    try:
        yield
    finally:
        gc.unfreeze()
        if was_on:
            gc.enable()


def _counted(order: Order, number: int, plants: Plants) -> Counted:
    planted = plants[order.mutant]
    simulated = simulate_scenario(order, variant=planted.variant)
    judgement = judged(simulated, variant=planted.variant)
    return Counted(
        order=number,
        outcome=judgement.outcome,
        as_expected=seen_as_expected(judgement, planted.convicts),
        events=len(simulated.events),
    )


def tallies(orders: Sequence[Order], counted: Sequence[Counted]) -> list[Tally]:
    """One a scenario and mutant, in the order of the orders."""
    kinds = dict.fromkeys((order.scenario.scenario, order.mutant) for order in orders)
    return [_tally(scenario, mutant, orders, counted) for scenario, mutant in kinds]


def _tally(scenario: str, mutant: str | None, orders: Sequence[Order], counted: Sequence[Counted]) -> Tally:
    mine = [run for run in counted if _kind(orders[run.order]) == (scenario, mutant)]
    counts = Counter(run.outcome for run in mine)
    unexpected = [run for run in mine if not run.as_expected]
    return Tally(
        scenario=scenario,
        mutant=mutant,
        counts={outcome: counts[outcome] for outcome in Outcome if counts[outcome]},
        events=sum(run.events for run in mine),
        unexpected=len(unexpected),
        first=orders[unexpected[0].order] if unexpected else None,
    )


def _kind(order: Order) -> tuple[str, str | None]:
    return order.scenario.scenario, order.mutant


def worth_keeping(counted: Sequence[Counted], *, at_most: int) -> list[int]:
    """The numbers of the orders whose runs a reader should see: the unexpected first, then one that is not."""
    unexpected = [run.order for run in counted if not run.as_expected]
    expected = [run.order for run in counted if run.as_expected]
    if len(counted) <= at_most:
        return [run.order for run in counted]
    return sorted(unexpected[: at_most - 1] + expected[:1])
