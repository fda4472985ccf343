"""A tally: counts many repeatable runs of a few scenarios and selects some of them for the report.

Invariant: every order is performed and judged once, independent of the number of processes. Runs are deterministic, so
the selected ones are run again to get their full outcome.
"""

from __future__ import annotations

import gc
import math
import signal
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from harness.engine.level import Level, Opening, Play, RunRecord, RunSite, asks_a_server, refuse
from harness.engine.perform import outcome_of
from harness.history.text import digest_of
from harness.history.verdict import NO_EVIDENCE, Outcome
from harness.judge.checkers.judge import uncollected
from harness.scenario.order import AnyOrder
from harness.scenario.outcome import CountedRun, RunOutcome
from harness.scenario.symptom import without_numbers, worth_showing
from harness.system.clock import CALENDAR_CLOCK, Deadline, monotonic_us
from harness.system.errors import Exit, HarnessError, SutError, as_internal, ends_one_run
from harness.system.pool import Executors, open_processes

_CHUNK: Final = 8
_PIECE: Final = 400
"""Most runs of a piece that is sent to an executor."""
_COLLECT_EVERY: Final = 25
"""Runs between two garbage collections; the objects of a run form cycles that are garbage after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted(CountedRun):
    """One run of a campaign that is going on."""

    order: int
    """The index of its order."""
    cut_after_s: float | None = None
    """The time that it had, if the budget of the command ended it before its own end."""
    refusal: SutError | None = None
    """Why the run was not made: the function under test cannot be judged."""
    broken: str = ""
    """What broke Floodmark itself in this run, which has no verdict then."""
    lacks_evidence: bool = False
    """Whether a fault or a count is missing that the scenario asks for."""

    def exit_code(self) -> Exit:
        """Its exit code; a planted defect that was not convicted is a violation."""
        if self.broken:
            return Exit.INTERNAL
        if self.as_expected:
            return Exit.HOLD
        if self.falls or (self.mutant is not None and self.verdict is Outcome.PASS):
            return Exit.VIOLATION
        return self.verdict.exit_code


def counted_of(number: int, outcome: RunOutcome) -> Counted:
    """The counted result of a run with a full outcome."""
    return Counted.of(outcome, order=number, lacks_evidence=NO_EVIDENCE in outcome.judgement.shown)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """The results of all runs of one scenario, with one planted defect or none."""

    scenario: str
    mutant: str | None
    counts: dict[Outcome, int]
    events: int
    unexpected: int
    first: AnyOrder | None
    """The first order with an unexpected result."""
    exit_codes: frozenset[Exit]
    """The exit codes of its runs."""
    violations: Mapping[tuple[str, str], int]
    """The number of its runs with each violation (invariant, kind of anomaly)."""

    @property
    def runs(self) -> int:
        """The number of runs."""
        return sum(self.counts.values())


def count(
    orders: Sequence[AnyOrder],
    level: Level,
    *,
    jobs: int = 1,
    goes_on: Callable[[], bool] = lambda: True,
    budget: Deadline | None = None,
    executors: Executors | None = None,
    world: str = "auto",
) -> Iterator[Counted]:
    """Performs and judges `orders` in order at a repeatable level, while `goes_on` is true.

    They are performed by `executors` if there are any, else in `jobs` processes. When `budget` has passed, runs in
    progress end early, and none begins but the first of all.
    """
    assert level.repeatable, f"runs of level {level.name} take place once, and are kept whole"
    for order in orders:
        refuse(order, level)
    if executors is not None:
        # Runs are numbered by piece there, so they get their place in the campaign here.
        piece = _Piece(
            level=level, budget=None if budget is None else Deadline(budget.left_s, clock=CALENDAR_CLOCK)
        )
        done = 0
        for counted in executors.map(piece, orders, most=_PIECE, goes_on=goes_on):
            for run in counted:
                yield replace(run, order=done)
                done += 1
            if budget is not None and budget.passed:
                return
        return
    with level.open(opening_for(orders, world=world)) as play:
        counting = _Counting(play=play, budget=budget)
        if jobs == 1 or len(orders) <= _CHUNK:
            level.refuse_blindness(None)
            yield from counting.all_of(orders, goes_on)
            return
        chunks = math.ceil(len(orders) / _CHUNK)
        with open_processes(min(jobs, chunks), begin=_share, given=(orders, counting, level)) as pool:
            for counted in pool.map(_count_chunk, range(len(orders)), most=_CHUNK):
                yield from counted
                if not goes_on() or counting.is_over:
                    return


def opening_for(orders: Iterable[AnyOrder], *, world: str = "auto") -> Opening:
    """What a level gets that these orders are run at."""
    return Opening(has_server=any(map(asks_a_server, orders)), world=world)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counting:
    """Performs runs without writing files, until the budget has passed."""

    play: Play
    budget: Deadline | None

    @property
    def is_over(self) -> bool:
        return self.budget is not None and self.budget.passed

    def all_of(self, orders: Sequence[AnyOrder], goes_on: Callable[[], bool]) -> Iterator[Counted]:
        with uncollected(frozen=True):
            for number, order in enumerate(orders):
                if not goes_on() or (number and self.is_over):
                    return
                yield self.one(order, number)
                if number % _COLLECT_EVERY == 0:
                    gc.collect(1)

    def one(self, order: AnyOrder, number: int) -> Counted:
        limit_s, began_us = None if self.budget is None else self.budget.left_s, monotonic_us()
        unjudged = Counted(
            order=number,
            scenario=order.scenario.scenario,
            mutant=order.mutant,
            level=order.level,
            seed=order.seed,
            sut=order.sut,
            again=order.again,
            verdict=Outcome.UNKNOWN,
            as_expected=False,
            events=0,
            cause="",
        )
        try:
            record = self.play(order, RunSite(run_id=f"counted-{number}", folder=Path(), limit_s=limit_s))
            outcome = outcome_of(order, record)
        except SutError as error:
            return replace(unjudged, cause=f"refused: {without_numbers(error.what)}", refusal=error)
        except Exception as error:
            if not ends_one_run(error):
                raise
            cause = f"internal error: {without_numbers(str(error))}"
            return replace(unjudged, cause=cause, broken=as_internal(error))
        return replace(
            counted_of(number, outcome),
            events=len(record.events),
            cut_after_s=limit_s if self.is_over and not record.whole else None,
            digest=digest_of(record.header, record.events) if isinstance(record, RunRecord) else "",
            took_s=(monotonic_us() - began_us) / 1e6,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """Performs and judges orders on an executor; picklable."""

    level: Level
    budget: Deadline | None
    """That of the command, by a clock that machines share."""

    def __call__(self, orders: Sequence[AnyOrder]) -> list[Counted]:
        if not _Shared.is_sighted:
            self.level.refuse_blindness(None)
            _Shared.is_sighted = True
        with self.level.open(opening_for(orders)) as play:
            return list(_Counting(play=play, budget=self.budget).all_of(orders, lambda: True))


class _Shared:
    """The data that a forked worker process inherits. Set once."""

    orders: Sequence[AnyOrder] = ()
    counting: _Counting
    level: Level
    is_sighted: bool = False
    """Whether this process has seen the canaries."""


def _share(orders: Sequence[AnyOrder], counting: _Counting, level: Level) -> None:
    """Passes the data by fork, because a variant cannot be pickled. Workers ignore Ctrl-C; the parent handles it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _Shared.orders, _Shared.counting, _Shared.level = orders, counting, level
    gc.freeze()
    gc.disable()


def _count_chunk(chunk: Sequence[int]) -> list[Counted]:
    if not _Shared.is_sighted:  # not in `_share`: an error there would only break the pool
        _Shared.level.refuse_blindness(None)
        _Shared.is_sighted = True
    counted, counting = list[Counted](), _Shared.counting
    for number in chunk:
        if number and counting.is_over:
            break
        counted.append(counting.one(_Shared.orders[number], number))
    gc.collect()
    return counted


def unbroken(runs: Iterable[Counted]) -> Iterator[Counted]:
    """The same runs. Raises HarnessError at the first one that broke Floodmark itself."""
    for run in runs:
        if run.broken:
            raise HarnessError(f"in {run.scenario} with seed {run.seed}: {run.broken}")
        yield run


def tallies(orders: Sequence[AnyOrder], counted: Sequence[Counted]) -> list[Tally]:
    """One tally for each scenario and mutant, in the order of the orders."""
    kinds = dict.fromkeys((order.scenario.scenario, order.mutant) for order in orders)
    return [_tally(scenario, mutant, orders, counted) for scenario, mutant in kinds]


def _tally(
    scenario: str, mutant: str | None, orders: Sequence[AnyOrder], counted: Sequence[Counted]
) -> Tally:
    of_it = [(order.scenario.scenario, order.mutant) == (scenario, mutant) for order in orders]
    mine = [run for run in counted if of_it[run.order]]
    counts = Counter(run.verdict for run in mine)
    unexpected = [run for run in mine if not run.as_expected]
    return Tally(
        scenario=scenario,
        mutant=mutant,
        counts={outcome: counts[outcome] for outcome in Outcome if counts[outcome]},
        events=sum(run.events for run in mine),
        unexpected=len(unexpected),
        first=orders[unexpected[0].order] if unexpected else None,
        exit_codes=frozenset(run.exit_code() for run in mine),
        violations=Counter(
            violation
            for run in mine
            for violation in (*run.violations, *([NO_EVIDENCE] if run.lacks_evidence else []))
        ),
    )


def worth_keeping(counted: Sequence[Counted]) -> list[int]:
    """The indices of the orders for the report: the first run of each cause, else one that went as expected.

    Runs that were not made have nothing to report.
    """
    made = [run for run in counted if run.refusal is None and not run.broken]
    return [made[index].order for index in worth_showing([(run.cause, run.as_expected) for run in made])]
