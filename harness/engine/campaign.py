"""A campaign: all runs of one command, and what came of them.

Invariant: a run that was asked for and did not happen is missed, never passed over: it costs the command its
exit code of success.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from harness.clock import Deadline
from harness.engine.observer import Observer, Stop
from harness.engine.stage import Stage, StagePlan, open_stage
from harness.errors import CannotHere, Exit, WorldError
from harness.runs.order import Order
from harness.runs.outcome import RunOutcome
from harness.verdict import worst

__all__ = ["Finished", "carry_out"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """What came of a campaign."""

    outcomes: tuple[RunOutcome, ...]
    asked: int
    """How many runs were asked for; fewer outcomes mean that some never ran."""
    interrupted: bool
    left_out: tuple[str, ...] = ()
    """Why some could not be run in this world, a sentence each."""
    error: WorldError | None = None
    """What the environment broke with, after which nothing more was run."""
    secrets: tuple[str, ...] = field(default=(), repr=False)
    """Passwords that no report may show."""

    @property
    def exit_code(self) -> Exit:
        """A violation beats an interruption, that beats unknown, and unknown beats the environment."""
        code = worst(outcome.judgement.outcome for outcome in self.outcomes).exit_code
        if code is Exit.VIOLATION:
            return code
        if self.interrupted:
            return Exit.INTERRUPTED
        if self.error is not None and code is Exit.HOLD:
            return self.error.exit_code
        return code if len(self.outcomes) == self.asked else Exit.UNDECIDED


def carry_out(
    orders: Sequence[Order],
    plan: StagePlan,
    *,
    observer: Observer,
    stop: Stop,
    budget_s: float | None = None,
) -> Finished:
    """Run every order, unless `stop` or the budget comes first, or the environment breaks.

    Raises WorldError where it breaks before the first run has ended, and CannotHere where no run could be made.
    """
    outcomes: dict[int, RunOutcome] = {}
    left_out: dict[int, CannotHere] = {}
    broke: WorldError | None = None
    with open_stage(plan, observer=observer, stop=stop) as stage:
        observer.phase("plan", _in_words(orders, plan))
        try:
            _run_all(
                orders,
                stage,
                lanes=plan.lanes,
                stop=stop,
                budget_s=budget_s,
                outcomes=outcomes,
                left_out=left_out,
            )
        except WorldError as error:
            if not outcomes:
                raise
            broke = error
    if not outcomes and left_out:
        raise left_out[min(left_out)]
    in_order = tuple(outcomes[number] for number in sorted(outcomes))
    return Finished(
        outcomes=in_order,
        asked=len(orders),
        interrupted=stop.is_set(),
        left_out=tuple(dict.fromkeys(left_out[number].what for number in sorted(left_out))),
        error=broke,
        secrets=tuple(stage.secrets),
    )


def _in_words(orders: Sequence[Order], plan: StagePlan) -> str:
    """What will run, with all that was drawn: before it runs."""
    names = ", ".join(dict.fromkeys(order.scenario.scenario for order in orders))
    seeds = sorted({order.seed for order in orders})
    span = f"{seeds[0]}..{seeds[-1]}" if len(seeds) > 1 else f"{seeds[0]}"
    return f"{plan.run_id}: {len(orders)} {'run' if len(orders) == 1 else 'runs'} of {names}, seed {span}"


def _run_all(
    orders: Sequence[Order],
    stage: Stage,
    *,
    lanes: int,
    stop: Stop,
    budget_s: float | None,
    outcomes: dict[int, RunOutcome],
    left_out: dict[int, CannotHere],
) -> None:
    """Into `outcomes` or `left_out`, by the order's number, as lanes are free. Raises the first WorldError."""
    budget = None if budget_s is None else Deadline(budget_s)

    def run(number: int) -> None:
        if stop.is_set() or (budget is not None and budget.passed):
            return
        limit_s = None if budget is None else budget.left_s
        try:
            outcomes[number] = stage.run(orders[number], limit_s=limit_s)
        except CannotHere as sentence:
            left_out[number] = sentence

    if lanes == 1:
        for number in range(len(orders)):
            run(number)
        return
    with ThreadPoolExecutor(max_workers=lanes) as pool:
        list(pool.map(run, range(len(orders))))
