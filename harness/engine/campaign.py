"""A campaign: all runs of one command, and their results.

Invariant: if a requested run did not happen, the exit code is not 0. Every run counts for the exit code, even if the
report does not show it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Final

from harness.engine.level import Level, Observer, Stop, refuse
from harness.engine.open_levels import OpenLevels, StagePlan, open_levels
from harness.engine.perform import planned_of
from harness.engine.run_counts import Counted, Tally, count, counted_of, tallies, worth_keeping
from harness.history.read import read_whole
from harness.history.text import digest_of
from harness.history.verdict import Outcome
from harness.scenario.order import AnyOrder
from harness.scenario.outcome import (
    CountedRun,
    Extent,
    LeftOut,
    MissingRuns,
    PlannedRuns,
    RunOutcome,
    left_out_line,
)
from harness.system.clock import Deadline, monotonic_us
from harness.system.errors import (
    CannotHere,
    Exit,
    HarnessError,
    NothingRan,
    SutError,
    WorldError,
    as_internal,
    ends_one_run,
    worst_code,
)
from harness.system.pool import Executors

KEPT_MAX: Final = 12
"""Up to this many repeatable runs are all made whole; more are counted first."""
_TWICE: Final = (
    "When it was counted, this run gave another history than the one shown here: what it depends on besides its seed "
    "(a clock, a set's order, a module's state) differs from process to process."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished(Extent):
    """The results of a campaign."""

    outcomes: tuple[RunOutcome, ...]
    """The outcomes of the runs in the report."""
    tallies: tuple[Tally, ...]
    """The counts of all runs."""
    not_here: tuple[str, ...] = ()
    """Why some could not run in this world, one sentence for each reason."""
    refused: tuple[str, ...] = ()
    """Why the function under test could not be judged, a sentence for each scenario."""
    broken: tuple[str, ...] = ()
    """What ended runs that broke Floodmark itself, one text for each; they have no verdict."""
    error: WorldError | None = None
    """The failure of the environment after which no more runs were made."""
    counted: tuple[CountedRun, ...] = ()
    """Every run, with one digest each, if they were counted because they are many; else empty."""
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """Passwords to be removed from reports."""
    kept: tuple[str, ...] = ()
    """How to open the data of each server that stays, one line each."""

    @property
    def ran(self) -> int:
        """How many runs were made."""
        return sum(tally.runs for tally in self.tallies)

    @property
    def digest(self) -> str:
        """One for all counted runs, in their order: equal for equal seeds, wherever and with however many they ran."""
        hashed = sha256()
        for run in self.counted:
            hashed.update(f"{run.scenario} {run.mutant} {run.seed} {run.verdict} {run.digest}\n".encode())
        return hashed.hexdigest()

    @property
    def as_expected(self) -> bool:
        """Whether all runs were made, every reference passed and every planted defect was detected."""
        return self.ran == self.asked and not any(tally.unexpected for tally in self.tallies)

    @property
    def exit_code(self) -> Exit:
        """The first that applies: internal error, violation, interruption, refusal, unknown or vacuous, environment.

        A planted defect that was convicted by an invariant meant for it holds; one that was not is a violation.
        """
        if self.broken:
            return Exit.INTERNAL
        code = worst_code(code for tally in self.tallies for code in tally.exit_codes)
        if not self.ran:
            code = Exit.UNDECIDED
        if code is Exit.VIOLATION:
            return code
        if self.interrupted:
            return Exit.INTERRUPTED
        if self.refused:
            return Exit.USAGE
        if self.error is not None and code is Exit.HOLD:
            return self.error.exit_code
        return code if self.ran == self.asked else Exit.UNDECIDED


def few_of(names: Sequence[str]) -> str:
    """The first of many names, and how many more there are."""
    more = len(names) - _NAMES_TOLD
    return ", ".join(names) if more <= 1 else f"{', '.join(names[:_NAMES_TOLD])} and {more} more"


_NAMES_TOLD: Final = 4


def carry_out(
    orders: Sequence[AnyOrder],
    plan: StagePlan,
    *,
    observer: Observer,
    stop: Stop,
    budget_s: float | None = None,
) -> Finished:
    """Performs all orders, until `stop` is set, the budget is used up or the environment fails.

    Raises UsageError if an order cannot run at its level, WorldError if the environment fails before the first run has
    ended, CannotHere if no run could be made in this world, and SutError if the function was refused in each run.
    """
    for order in orders:
        refuse(order, plan.levels(order.level))
    began_us = monotonic_us()
    campaign = _Campaign(orders, plan=plan, observer=observer, stop=stop, budget_s=budget_s)
    with open_levels(plan, observer=observer, stop=stop) as stage:
        campaign.go(stage)
    return Finished(
        outcomes=tuple(campaign.outcomes[number] for number in sorted(campaign.outcomes)),
        tallies=tuple(tallies(orders, campaign.counted())),
        asked=len(orders) - len(campaign.unmet),
        interrupted=stop.is_set(),
        took_s=(monotonic_us() - began_us) / 1e6,
        not_here=tuple(dict.fromkeys(campaign.left_out[number].what for number in sorted(campaign.left_out))),
        left_out=tuple(campaign.scenarios_unmet()),
        refused=tuple(campaign.refusals()),
        broken=tuple(campaign.breakages()),
        error=campaign.error,
        counted=tuple(campaign.counted_runs()),
        missing=tuple(campaign.missing()),
        planned=tuple(campaign.planned()),
        secrets=stage.secrets,
        kept=stage.kept,
    )


class _Campaign:
    """A running campaign. Mutable: `outcomes`, `left_out` and the like are filled, by the order's number."""

    def __init__(
        self,
        orders: Sequence[AnyOrder],
        *,
        plan: StagePlan,
        observer: Observer,
        stop: Stop,
        budget_s: float | None,
    ) -> None:
        self._orders = orders
        self._levels: Sequence[Level] = [
            plan.levels(name) for name in dict.fromkeys(order.level for order in orders)
        ]
        self._plan = plan
        self._observer = observer
        self._stop = stop
        self._budget = None if budget_s is None else Deadline(budget_s)
        self._counted: list[Counted] | None = None
        self.outcomes: dict[int, RunOutcome] = {}
        self.left_out: dict[int, CannotHere] = {}
        self.unmet: dict[int, CannotHere] = {}
        """Of these, what was not named and needs what the job lacks."""
        self.refused: dict[int, SutError | CannotHere] = {}
        self.broken: dict[int, str] = {}
        self.error: WorldError | None = None

    def go(self, stage: OpenLevels) -> None:
        """Performs the orders; if there are many repeatable ones, counts all and then reruns those for the report."""
        in_world = [order for order in self._orders if self._plan.levels(order.level).needs_world]
        if in_world:
            from harness.engine.worlds import shared_needs  # noqa: PLC0415 - pulls in a database's client

            # Open a world first, so that the user sees which one is used.
            with self._stop.setting_up():
                stage.worlds().open_one(shared_needs(in_world))
        self._observer.phase("plan", self._in_words())
        numbers: Sequence[int] = range(len(self._orders))
        (first, *others) = self._levels
        if first.repeatable and not others and len(self._orders) > KEPT_MAX:
            self._counted = list(self._count())
            numbers = worth_keeping(self._counted)
            self.refused = {run.order: run.refusal for run in self._counted if run.refusal is not None}
            self.broken = {run.order: run.broken for run in self._counted if run.broken}
        try:
            self._run_all(stage, numbers)
        except WorldError as error:
            if not self.outcomes:
                raise
            self.error = error
        if not self.outcomes and self.broken:
            raise HarnessError(next(self.breakages()))
        if not self.outcomes and self.left_out:
            raise self.left_out[min(self.left_out)]
        if not self.outcomes and self.refused:
            raise self.refused[min(self.refused)]
        if len(self.unmet) == len(self._orders):
            line = left_out_line(self.scenarios_unmet())
            raise NothingRan(f"none of these scenarios is for this job; {line}", fix="choose others")

    def counted(self) -> list[Counted]:
        """All runs that were counted."""
        if self._counted is not None:
            return self._counted
        return [counted_of(number, self.outcomes[number]) for number in sorted(self.outcomes)]

    def counted_runs(self) -> Iterator[CountedRun]:
        """All runs, if they were counted because they are many."""
        for run in self._counted or ():
            shown, order = self.outcomes.get(run.order), self._orders[run.order]
            # The name that the order has, not its copy from another process: `run.json` omits the default by identity.
            yield replace(run, sut=order.sut, run_id="" if shown is None else shown.run_id)

    def missing(self) -> Iterator[MissingRuns]:
        """The runs that were not made: for each scenario and reason, the seeds."""
        made = {run.order for run in self.counted()}
        seeds: dict[tuple[str, str | None, str, str], list[int]] = {}
        for number, order in enumerate(self._orders):
            if number not in made and number not in self.unmet:
                kind = (order.scenario.scenario, order.mutant, order.level, self._why_not(number))
                seeds.setdefault(kind, []).append(order.seed)
        for (scenario, mutant, level, why), its in seeds.items():
            yield MissingRuns(scenario=scenario, mutant=mutant, level=level, seeds=tuple(its), why=why)

    def planned(self) -> Iterator[PlannedRuns]:
        """The planned runs of each scenario with one system under test, if its runs were counted."""
        firsts: dict[tuple[str, str | None, str], AnyOrder] = {}
        for order in self._orders if self._counted is not None else ():
            firsts.setdefault((order.scenario.scenario, order.mutant, order.sut), order)
        yield from map(planned_of, firsts.values())

    def _why_not(self, number: int) -> str:
        """Why the run of that order was not made."""
        told = self.left_out.get(number) or self.refused.get(number)
        if told is not None:
            return told.what
        if number in self.broken:
            return self.broken[number].partition("\n")[0]
        if self._stop.is_set():
            return "the campaign was interrupted"
        return "the budget was over" if self.error is None else self.error.what

    def refusals(self) -> Iterator[str]:
        """Why the function under test was refused: the first reason in each scenario, and in how many runs."""
        for name, numbers in self._by_scenario(self.refused).items():
            runs = f" ({len(numbers)} runs)" if len(numbers) > 1 else ""
            yield f"in {name}{runs}: {self.refused[numbers[0]]}"

    def breakages(self) -> Iterator[str]:
        """What broke Floodmark itself: the first in each scenario, and in how many runs."""
        for name, numbers in self._by_scenario(self.broken).items():
            runs = f", the first of {len(numbers)} runs" if len(numbers) > 1 else ""
            yield f"in {name} with seed {self._orders[numbers[0]].seed}{runs}: {self.broken[numbers[0]]}"

    def _by_scenario(self, numbers: Iterable[int]) -> Mapping[str, list[int]]:
        found: dict[str, list[int]] = {}
        for number in sorted(numbers):
            found.setdefault(self._orders[number].scenario.scenario, []).append(number)
        return found

    def scenarios_unmet(self) -> list[LeftOut]:
        """What was left out, a scenario each."""
        whys = {self._orders[number].scenario.scenario: self.unmet[number] for number in sorted(self.unmet)}
        return [LeftOut(scenario=name, need=why.need, why=why.what) for name, why in whys.items()]

    def _goes_on(self) -> bool:
        return not self._stop.is_set() and (self._budget is None or not self._budget.passed)

    def _in_words(self) -> str:
        """The description of the campaign before it runs, with its seeds."""
        orders = self._orders
        names = few_of(list(dict.fromkeys(order.scenario.scenario for order in orders)))
        seeds = sorted({order.seed for order in orders})
        span = f"{seeds[0]}..{seeds[-1]}" if len(seeds) > 1 else f"{seeds[0]}"
        runs = f"{len(orders)} {'run' if len(orders) == 1 else 'runs'}"
        counts = Counter(order.level for order in orders)
        where = few_of([f"{name} ({count})" if len(counts) > 1 else name for name, count in counts.items()])
        return f"{self._plan.run_id}: {runs} of {names} at level {where}, seed {span}"

    def _count(self) -> Iterator[Counted]:
        unexpected = 0
        with self._executors() as executors:
            runs = count(
                self._orders,
                self._levels[0],
                jobs=self._plan.lanes,
                goes_on=lambda: not self._stop.is_set(),
                budget=self._budget,
                executors=executors,
                world=self._plan.world,
            )
            for done, run in enumerate(runs, start=1):
                unexpected += not run.as_expected
                self._observer.counted(done=done, asked=len(self._orders), unexpected=unexpected)
                yield run

    @contextmanager
    def _executors(self) -> Iterator[Executors | None]:
        """The machines that perform the runs to be counted; None: this one."""
        if self._plan.executors is None:
            yield None
            return
        with ExitStack() as stack:
            with self._stop.setting_up():
                executors = stack.enter_context(self._plan.executors())
            yield executors

    def _compared(self, number: int, outcome: RunOutcome) -> RunOutcome:
        """The outcome, with a warning if the run gave another history when it was counted, here or on an executor."""
        counted = next((run for run in self._counted or () if run.order == number), None)
        if counted is None or not counted.digest or counted.cut_after_s is not None or self._stop.is_set():
            return outcome
        header, events = read_whole(outcome.history)
        if digest_of(header, events) == counted.digest:
            return outcome
        return replace(outcome, threats=(_TWICE, *outcome.threats))

    def _limit_s(self, number: int) -> float | None:
        """The limit of a run; one that was counted is run again for the report until it shows the same."""
        left_s = None if self._budget is None else self._budget.left_s
        counted = next((run for run in self._counted or () if run.order == number), None)
        if counted is None or (counted.cut_after_s is not None and counted.verdict is not Outcome.FAIL):
            return left_s
        return counted.cut_after_s

    def _run_all(self, stage: OpenLevels, numbers: Sequence[int]) -> None:
        """Performs the orders in as many threads as there are lanes. Raises the first WorldError."""
        goes_on: Callable[[], bool] = self._goes_on if self._counted is None else lambda: True

        def run(number: int) -> None:
            if not goes_on():
                return
            try:
                outcome = stage.run(self._orders[number], limit_s=self._limit_s(number))
                self.outcomes[number] = self._compared(number, outcome)
            except CannotHere as sentence:
                of_job = self.refused if self._orders[number].named else self.unmet
                (of_job if sentence.need else self.left_out)[number] = sentence
            except SutError as error:
                self.refused[number] = error
            except Exception as error:
                if not ends_one_run(error):
                    raise
                self.broken[number] = as_internal(error)

        if self._plan.lanes == 1 or not all(level.in_threads for level in self._levels):
            for number in numbers:
                run(number)
            return
        with ThreadPoolExecutor(max_workers=self._plan.lanes) as pool:
            list(pool.map(run, numbers))
