"""A tally: counts many repeatable runs of a few scenarios and selects some of them for the report.

Invariant: every order is performed and judged once, independent of the number of processes. Runs are deterministic, so
the selected ones are run again to get their full outcome.
"""

from __future__ import annotations

import gc
import math
import signal
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

from harness.engine.level import Level, Opening, OutsideRecord, Play, RunRecord, RunSite, refuse
from harness.engine.perform import convicts_of, held_to_thresholds, judged_by_order, measures_of_run
from harness.history.text import digest_of
from harness.history.verdict import NO_EVIDENCE, Judgement, Outcome
from harness.judge.checkers.judge import uncollected
from harness.judge.explanation.measures import measures_taken
from harness.scenario.order import AnyOrder
from harness.scenario.outcome import CountedRun, RunOutcome, Threshold, seen_as_expected
from harness.scenario.symptom import RunEnding, cause_of, without_numbers, worth_showing
from harness.system.clock import CALENDAR_CLOCK, Deadline, monotonic_us
from harness.system.errors import Exit, SutError
from harness.system.pool import Executors, open_processes

_CHUNK: Final = 8
_PIECE: Final = 400
"""Most runs of a piece that is sent to an executor."""
_COLLECT_EVERY: Final = 25
"""Runs between two garbage collections; the objects of a run form cycles that are garbage after it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """The counted result of one run."""

    order: int
    """The index of its order."""
    outcome: Outcome
    as_expected: bool
    events: int
    falls: bool = False
    """Whether a pitfall or a threshold makes it fail."""
    cut_after_s: float | None = None
    """The time that it had, if the budget of the command ended it before its own end."""
    refusal: SutError | None = None
    """Why the run was not made: the function under test cannot be judged."""
    digest: str = ""
    """The digest of its history, to be compared with that of the same run elsewhere."""
    violations: tuple[tuple[str, str], ...] = ()
    """As `Judgement.shown`."""
    cause: str = ""
    """As `RunOutcome.cause`."""
    took_s: float = field(default=0.0, compare=False)
    measures: Mapping[str, float] = field(default_factory=dict)
    """As `RunOutcome.measures`."""

    def exit_code(self, *, planted: bool) -> Exit:
        """Its exit code; a planted defect that was not convicted (`planted`) is a violation."""
        if self.as_expected:
            return Exit.HOLD
        if self.falls:
            return Exit.VIOLATION
        return Exit.VIOLATION if planted and self.outcome is Outcome.PASS else self.outcome.exit_code

    @classmethod
    def of(cls, number: int, outcome: RunOutcome) -> Counted:
        """The counted result of a run with a full outcome."""
        return cls(
            order=number,
            outcome=outcome.judgement.outcome,
            as_expected=outcome.as_expected,
            events=outcome.judgement.accounting.get("events", 0),
            falls=outcome.falls,
            violations=outcome.judgement.shown,
            cause=outcome.cause,
            took_s=outcome.duration_s,
            measures=outcome.measures,
        )

    def listed(self, order: AnyOrder, outcome: RunOutcome | None) -> CountedRun:
        """Its row in a report; `outcome`: that of the same run, if it is shown in full."""
        return CountedRun(
            scenario=order.scenario.scenario,
            mutant=order.mutant,
            level=order.level,
            seed=order.seed,
            outcome=self.outcome,
            as_expected=self.as_expected,
            events=self.events,
            falls=self.falls,
            digest=self.digest,
            sut=order.sut,
            cause=self.cause,
            violations=tuple(one for one in self.violations if one != NO_EVIDENCE),
            took_s=self.took_s,
            again=order.again,
            run_id="" if outcome is None else outcome.run_id,
            measures=self.measures,
        )


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
) -> Iterator[Counted]:
    """Performs and judges `orders` in order at a repeatable level, while `goes_on` is true.

    They are performed by `executors` if there are any, else in `jobs` processes. When `budget` has passed, runs in
    progress end early, and none begins but the first of all.
    """
    assert level.repeatable, f"runs of level {level.name} take place once, and are kept whole"
    for order in orders:
        refuse(order, level)
    if executors is not None:
        yield from _count_there(orders, level, executors, goes_on, budget)
        return
    with level.open(Opening()) as play:
        if jobs == 1 or len(orders) <= _CHUNK:
            level.refuse_blindness(None)
            yield from _count_here(orders, play, goes_on, budget)
            return
        chunks = math.ceil(len(orders) / _CHUNK)
        with open_processes(min(jobs, chunks), begin=_share, given=(orders, play, level, budget)) as pool:
            for counted in pool.map(_count_chunk, range(len(orders)), most=_CHUNK):
                yield from counted
                if not goes_on() or _is_over(budget):
                    return


def _count_here(
    orders: Sequence[AnyOrder], play: Play, goes_on: Callable[[], bool], budget: Deadline | None
) -> Iterator[Counted]:
    with uncollected(frozen=True):
        for number, order in enumerate(orders):
            if not goes_on() or (number and _is_over(budget)):
                return
            yield _counted(order, number, play, budget)
            if number % _COLLECT_EVERY == 0:
                gc.collect()


def _count_there(
    orders: Sequence[AnyOrder],
    level: Level,
    executors: Executors,
    goes_on: Callable[[], bool],
    budget: Deadline | None,
) -> Iterator[Counted]:
    """On the executors; their runs are numbered by piece, so they get their place in the campaign here."""
    shared = None if budget is None else Deadline(budget.left_s, clock=CALENDAR_CLOCK)
    done = 0
    for counted in executors.map(_Piece(level=level, budget=shared), orders, most=_PIECE, goes_on=goes_on):
        for run in counted:
            yield replace(run, order=done)
            done += 1
        if _is_over(budget):
            return


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
        with self.level.open(Opening()) as play:
            return list(_count_here(orders, play, lambda: True, self.budget))


class _Shared:
    """The data that a forked worker process inherits. Set once."""

    orders: Sequence[AnyOrder] = ()
    play: Play
    level: Level
    budget: Deadline | None = None
    is_sighted: bool = False
    """Whether this process has seen the canaries."""


def _share(orders: Sequence[AnyOrder], play: Play, level: Level, budget: Deadline | None) -> None:
    """Passes the data by fork, because a variant cannot be pickled. Workers ignore Ctrl-C; the parent handles it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    _Shared.orders, _Shared.play, _Shared.level = orders, staticmethod(play), level
    _Shared.budget = budget
    gc.freeze()
    gc.disable()


def _count_chunk(chunk: Sequence[int]) -> list[Counted]:
    if not _Shared.is_sighted:  # not in `_share`: an error there would only break the pool
        _Shared.level.refuse_blindness(None)
        _Shared.is_sighted = True
    counted, budget = list[Counted](), _Shared.budget
    for number in chunk:
        if number and _is_over(budget):
            break
        counted.append(_counted(_Shared.orders[number], number, _Shared.play, budget))
    gc.collect()
    return counted


def _is_over(budget: Deadline | None) -> bool:
    return budget is not None and budget.passed


def _counted(order: AnyOrder, number: int, play: Play, budget: Deadline | None) -> Counted:
    """Performs one run without writing files, until the budget has passed."""
    limit_s, began_us = None if budget is None else budget.left_s, monotonic_us()
    try:
        record = play(order, RunSite(run_id=f"counted-{number}", folder=Path(), limit_s=limit_s))
    except SutError as error:
        cause = f"refused: {without_numbers(error.what)}"
        return Counted(
            order=number, outcome=Outcome.UNKNOWN, as_expected=False, events=0, refusal=error, cause=cause
        )
    judgement = judged_by_order(order, record)
    measures = measures_of_run(record, judgement)
    judgement, thresholds = held_to_thresholds(order, judgement, measures)
    convicts = convicts_of(order)
    falls = order.fails_on_pitfall and bool(record.all_pitfalls)
    falls = falls or (not convicts and any(threshold.verdict == "crossed" for threshold in thresholds))
    as_expected = seen_as_expected(judgement, convicts) and not falls
    return Counted(
        order=number,
        outcome=judgement.outcome,
        as_expected=as_expected,
        events=len(record.events),
        falls=falls,
        cut_after_s=limit_s if _is_over(budget) and not record.whole else None,
        digest=digest_of(record.header, record.events) if isinstance(record, RunRecord) else "",
        violations=judgement.shown,
        cause=_cause(order, record, judgement, thresholds, as_expected=as_expected),
        took_s=(monotonic_us() - began_us) / 1e6,
        measures=measures_taken(measures),
    )


def _cause(
    order: AnyOrder,
    record: RunRecord | OutsideRecord,
    judgement: Judgement,
    thresholds: Sequence[Threshold],
    *,
    as_expected: bool,
) -> str:
    """As `RunOutcome.cause`; the scenario becomes JSON only where that is read."""
    undecided = judgement.outcome in {Outcome.UNKNOWN, Outcome.VACUOUS}
    ended = RunEnding(
        error=record.error,
        interrupted=record.interrupted,
        as_expected=as_expected,
        mutant=order.mutant,
        convicts=convicts_of(order),
        pitfalls=[pitfall.name for pitfall in record.all_pitfalls],
        plan=order.scenario.model_dump(mode="json", by_alias=True) if undecided else None,
        has_values=record.values is not None and bool(record.values.says),
        thresholds=[
            told.name for word in ("crossed", "unknown") for told in thresholds if told.verdict == word
        ],
    )
    return cause_of(judgement, ended)


def tallies(orders: Sequence[AnyOrder], counted: Sequence[Counted]) -> list[Tally]:
    """One tally for each scenario and mutant, in the order of the orders."""
    kinds = dict.fromkeys((order.scenario.scenario, order.mutant) for order in orders)
    return [_tally(scenario, mutant, orders, counted) for scenario, mutant in kinds]


def _tally(
    scenario: str, mutant: str | None, orders: Sequence[AnyOrder], counted: Sequence[Counted]
) -> Tally:
    of_it = [(order.scenario.scenario, order.mutant) == (scenario, mutant) for order in orders]
    mine = [run for run in counted if of_it[run.order]]
    counts = Counter(run.outcome for run in mine)
    unexpected = [run for run in mine if not run.as_expected]
    return Tally(
        scenario=scenario,
        mutant=mutant,
        counts={outcome: counts[outcome] for outcome in Outcome if counts[outcome]},
        events=sum(run.events for run in mine),
        unexpected=len(unexpected),
        first=orders[unexpected[0].order] if unexpected else None,
        exit_codes=frozenset(run.exit_code(planted=mutant is not None) for run in mine),
        violations=Counter(violation for run in mine for violation in run.violations),
    )


def worth_keeping(counted: Sequence[Counted]) -> list[int]:
    """The indices of the orders for the report: the first run of each cause, else one that went as expected.

    Runs that were not made have nothing to report.
    """
    made = [run for run in counted if run.refusal is None]
    return [made[index].order for index in worth_showing([(run.cause, run.as_expected) for run in made])]
