"""A tally: very many runs of a few scenarios, counted; only those that matter are kept whole.

Invariant: every order is run and judged once, whatever the number of processes; a run is worth keeping if it is not
as it should be. Runs are deterministic, so one that is to be kept is simply run again.
"""

from __future__ import annotations

import gc
import multiprocessing
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from harness.engine.level import Level, Opening, Play, Site, refuse
from harness.engine.perform import convicts_of, judged
from harness.runs.order import Order
from harness.runs.outcome import RunOutcome, seen_as_expected
from harness.verdict import Outcome

__all__ = ["Counted", "Tally", "count", "tallies", "worth_keeping"]

_CHUNK: Final = 8
_COLLECT_EVERY: Final = 25
"""Runs between two collections: a run's objects hold each other, and none of them outlives it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """One run, as far as it is counted."""

    order: int
    """Its number among the orders."""
    outcome: Outcome
    as_expected: bool
    events: int

    @classmethod
    def of(cls, number: int, outcome: RunOutcome) -> Counted:
        """A run that was kept whole."""
        return cls(
            order=number,
            outcome=outcome.judgement.outcome,
            as_expected=outcome.as_expected,
            events=outcome.judgement.accounting.get("events", 0),
        )


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


def count(
    orders: Sequence[Order], level: Level, *, jobs: int = 1, goes_on: Callable[[], bool] = lambda: True
) -> Iterator[Counted]:
    """Run and judge `orders` in their order at a repeatable level, as long as it `goes_on`."""
    assert level.repeatable, f"runs of level {level.name} take place once, and are kept whole"
    for order in orders:
        refuse(order, level)
    chunks = [range(start, min(start + _CHUNK, len(orders))) for start in range(0, len(orders), _CHUNK)]
    with level.open(Opening()) as play:
        if jobs == 1 or len(chunks) == 1:
            yield from _count_here(orders, play, goes_on)
            return
        context = multiprocessing.get_context("fork")
        with ProcessPoolExecutor(
            max_workers=min(jobs, len(chunks)),
            mp_context=context,
            initializer=_share,
            initargs=(orders, play),
        ) as pool:
            for counted in pool.map(_count_chunk, chunks):
                yield from counted
                if not goes_on():
                    pool.shutdown(cancel_futures=True)
                    return


def _count_here(orders: Sequence[Order], play: Play, goes_on: Callable[[], bool]) -> Iterator[Counted]:
    with _uncollected():
        for number, order in enumerate(orders):
            if not goes_on():
                return
            yield _counted(order, number, play)
            if number % _COLLECT_EVERY == 0:
                gc.collect()


class _Shared:
    """What a worker was forked with. Mutable once."""

    orders: Sequence[Order] = ()
    play: Play


def _share(orders: Sequence[Order], play: Play) -> None:
    """By fork and not by pickle: a variant holds functions. Ctrl-C is for the parent, who stops asking."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _Shared.orders, _Shared.play = orders, staticmethod(play)
    gc.freeze()
    gc.disable()


def _count_chunk(chunk: range) -> list[Counted]:
    counted = [_counted(_Shared.orders[number], number, _Shared.play) for number in chunk]
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


def _counted(order: Order, number: int, play: Play) -> Counted:
    """Nothing is written, so the run needs no folder."""
    record = play(order, Site(run_id=f"counted-{number}", folder=Path()))
    judgement = judged(record)
    return Counted(
        order=number,
        outcome=judgement.outcome,
        as_expected=seen_as_expected(judgement, convicts_of(order)),
        events=len(record.events),
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
