"""`floodmark demo`: runs one scenario twice, with the reference and with a planted defect.

Invariant: the exit code is 0 only if the reference passed and the defect's own invariant detected the defect.
"""

from __future__ import annotations

from typing import Any

import click

from harness.cli.options import option, refuse_no_world, run_options
from harness.system.levels import OPERATOR_LEVELS

_SCENARIO = "kill-between-snapshot-and-commit"
_MUTANT = "snapshot-omits-completed"


@click.command()
@option("--level", type=click.Choice(OPERATOR_LEVELS), default="spark", show_default=True,
        help="sim: virtual time; live: processes; spark: PySpark tasks.")  # fmt: skip
@run_options
def demo(*, level: str, seed: int | None, **options: Any) -> int:
    """Run one scenario twice: the reference operator must pass, and a planted defect must be detected.

    Exit code: 0 if both happened, 1 if the defect was not detected or the reference failed, 10 if a run was
    undecided, 11 if the environment failed.
    """
    from harness.cli.run_campaign import run_campaign
    from harness.history.verdict import Outcome
    from harness.scenario.file import load_many
    from harness.scenario.order import Order
    from harness.system.choices import fresh_seed
    from harness.system.errors import Exit

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
    finished = run_campaign(orders, title=title, **options)
    if finished.as_expected:
        return Exit.HOLD
    if finished.broken:
        return Exit.INTERNAL
    if finished.interrupted:
        return Exit.INTERRUPTED
    if finished.error is not None:
        return finished.error.exit_code
    unexpected = [outcome.judgement.outcome for outcome in finished.outcomes if not outcome.as_expected]
    undecided = any(outcome in {Outcome.UNKNOWN, Outcome.VACUOUS} for outcome in unexpected)
    return Exit.UNDECIDED if undecided or not unexpected else Exit.VIOLATION
