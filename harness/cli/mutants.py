"""`floodmark mutants`: shows that the checkers detect planted defects, the twelve that teach or a user's own.

Invariants: unknown names are reported before anything runs; the exit code is 0 only if every mutant is detected by the
invariant meant for it and the reference passes all.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import click

from harness.cli.completion import mutant_names
from harness.cli.options import on_option, option, refuse_on_at, run_options
from harness.system.levels import OPERATOR_LEVELS

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from harness.scenario.order import Order
    from harness.system.levels import Level
    from harness.system.pool import Executors

_RUNS = 400
_SEED = 1
_BUDGET_S = 3600.0


@click.command()
@option("--level", type=click.Choice(OPERATOR_LEVELS), default="sim", show_default=True,
        help="sim: all mutants; live and spark: those that have a scenario.")  # fmt: skip
@option("--mutant", "names", multiple=True, metavar="NAME|MODULE:ATTR", shell_complete=mutant_names,
        help="Only this one; repeatable. Your own: a Variant or a build_operator.  [default: all]")  # fmt: skip
@option("--runs", type=click.IntRange(min=1), default=_RUNS, show_default=True,
        help="At sim: the largest number of runs until a mutant is detected.")  # fmt: skip
@option("--jobs", type=click.IntRange(min=1), default=1, show_default=True,
        help="At sim: processes; at live: parallel runs, each in its own world.")  # fmt: skip
@on_option(
    "Level sim: try the mutants on Spark's executors: local[N], local-cluster[N,C,MB] or spark://HOST:PORT."
)
@run_options
def mutants(level: Level, *, names: tuple[str, ...], runs: int, **asked: Any) -> int:
    """Run the planted defects, or your own, and the reference, against every invariant.

    At level sim the seed (default: 1, so that the table is the same everywhere) draws the scenarios; each mutant
    is run until the invariant meant for it detects it.

    Exit code: 0 every mutant is detected and the reference passes, 1 a mutant survived or the reference failed,
    10 a mutant could not be run.
    """
    from harness.sut.user_code import add_current_folder

    add_current_folder()
    refuse_on_at(level, asked["on"])
    if level == "sim":
        return _at_sim(names, runs=runs, asked=asked)
    from harness.cli.run_campaign import run_campaign
    from harness.sut.defects import DEFECTS
    from harness.system.choices import fresh_seed

    # Each mutant in its own scenario, like `floodmark run --mutant`.
    seed = fresh_seed() if asked["seed"] is None else asked["seed"]
    chosen = names or tuple(name for name, defect in DEFECTS.items() if defect.scenario_at(level))
    orders = [_order(name, level, seed, asked["world"]) for name in chosen]
    options = ("world", "jobs", "report", "keep", "budget", "offline", "form", "quiet", "verbose", "no_color")
    finished = run_campaign(
        orders, title=f"mutants at level {level}", **{name: asked[name] for name in options}
    )
    return finished.exit_code


def _at_sim(names: tuple[str, ...], *, runs: int, asked: dict[str, Any]) -> int:
    from harness.cli.run_campaign import executors_of, observing
    from harness.explore.kill_matrix import (
        OURS,
        DefectEntry,
        as_json,
        as_markdown,
        as_text,
        fill,
        find_suspect,
        summary,
    )
    from harness.system.clock import CALENDAR_CLOCK, Deadline

    for name in names:
        find_suspect(name)
    charge = DefectEntry(
        names=names or OURS,
        seed=_SEED if asked["seed"] is None else asked["seed"],
        runs=runs,
    )

    with observing(quiet=asked["quiet"], verbose=asked["verbose"], no_color=asked["no_color"]) as observer:

        def tell(done: int, trials: int) -> None:
            observer.counted(done=done, asked=trials)
            if asked["verbose"]:
                observer.phase("trial", f"{done} of {trials}")

        machines: AbstractContextManager[Executors | None] = nullcontext()
        if asked["on"] is not None:
            machines = executors_of(asked["on"], of_a_user=any(":" in name for name in names))()
        with machines as executors:
            matrix = fill(
                charge,
                jobs=asked["jobs"],
                deadline=Deadline(asked["budget"] or _BUDGET_S, clock=CALENDAR_CLOCK),
                tell=tell,
                executors=executors,
            )
    match asked["form"]:
        case "json":
            click.echo(as_json(matrix))
        case "pretty":
            click.echo(as_text(matrix))
        case _:
            click.echo(f"{as_markdown(matrix)}\n\n{summary(matrix)}")
    return matrix.exit_code


def _order(name: str, level: Level, seed: int, world: str) -> Order:
    from harness.scenario.file import load_many
    from harness.scenario.order import Order
    from harness.sut.defects import find_defect
    from harness.system.errors import UsageError

    meant = find_defect(name).scenario_at(level)
    if meant is None:
        raise UsageError(f"the mutant {name} shows at level sim only", fix="floodmark mutants --level sim")
    (scenario,) = load_many([meant])
    again = f"floodmark run {meant} --level {level} --world {world} --seed {seed} --mutant {name}"
    return Order(scenario=scenario, level=level, seed=seed, mutant=name, again=again)
