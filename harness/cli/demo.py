"""`floodmark demo`: the newcomer's first run, one scenario twice: the reference, then a planted defect.

Invariant: it answers 0 only if both were seen: the reference passed, and the defect was convicted by the
invariant meant for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from harness.cli.options import refuse_no_world, run_options

if TYPE_CHECKING:
    from collections.abc import Sequence

    from harness.engine.campaign import Finished
    from harness.errors import Exit
    from harness.runs.order import Order
    from harness.verdict import Outcome

__all__ = ["demo"]

_SCENARIO = "kill-between-snapshot-and-commit"
_MUTANT = "snapshot-omits-completed"


@click.command()
@click.option("--level", envvar="FLOODMARK_LEVEL", type=click.Choice(["sim", "live", "spark"]), default="spark",
              show_default=True, help="sim: virtual time; live: processes; spark: PySpark tasks.")  # fmt: skip
@run_options
def demo(*, level: str, seed: int | None, **options: Any) -> int:
    """Run one scenario twice: the reference operator must pass, a planted defect must be convicted.

    Exit code: 0 if both happened, 1 if the defect escaped or the reference was convicted, 10 if a run was
    undecided, 11 if the environment failed.
    """
    from harness.choices import fresh_seed
    from harness.errors import Exit
    from harness.runs.order import Order
    from harness.scenario_file import load_many

    refuse_no_world(level, options["world"])
    (scenario,) = load_many([_SCENARIO])
    number = seed if seed is not None else fresh_seed()
    world = "" if level == "sim" else f" --world {options['world']} --proxy {options['proxy']}"
    again = f"floodmark run {_SCENARIO} --level {level}{world} --seed {number}"
    orders = [
        Order(scenario=scenario, level=level, seed=number, again=again),
        Order(
            scenario=scenario, level=level, seed=number, mutant=_MUTANT, again=f"{again} --mutant {_MUTANT}"
        ),
    ]
    title = f"demo: {_SCENARIO}"
    if level == "sim":
        return _simulated(orders, title=title, options=options)
    from harness.cli.campaigning import go

    finished = go(orders, title=title, **options)
    return Exit.HOLD if _saw_both(finished) else _worse(finished)


def _simulated(orders: Sequence[Order], *, title: str, options: dict[str, Any]) -> Exit:
    from harness.cli.simulating import go
    from harness.errors import Exit

    of_a_world = ("world", "proxy", "keep", "offline")
    campaign = go(orders, title=title, **{name: options[name] for name in options if name not in of_a_world})
    if campaign.as_expected:
        return Exit.HOLD
    if campaign.interrupted:
        return Exit.INTERRUPTED
    unexpected = [outcome for tally in campaign.tallies if tally.unexpected for outcome in tally.counts]
    return _undecided_or_violated(unexpected)


def _saw_both(finished: Finished) -> bool:
    return len(finished.outcomes) == finished.asked and all(
        outcome.as_expected for outcome in finished.outcomes
    )


def _worse(finished: Finished) -> Exit:
    """The exit code of a demo that did not show what it is meant to show: never that of success."""
    from harness.errors import Exit

    if finished.interrupted:
        return Exit.INTERRUPTED
    if finished.error is not None:
        return finished.error.exit_code
    unexpected = [outcome for outcome in finished.outcomes if not outcome.as_expected]
    return _undecided_or_violated([outcome.judgement.outcome for outcome in unexpected])


def _undecided_or_violated(unexpected: Sequence[Outcome]) -> Exit:
    from harness.errors import Exit
    from harness.verdict import Outcome

    undecided = any(outcome in {Outcome.UNKNOWN, Outcome.VACUOUS} for outcome in unexpected)
    return Exit.UNDECIDED if undecided or not unexpected else Exit.VIOLATION
