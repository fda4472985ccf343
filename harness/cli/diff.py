"""`floodmark diff A B` and `floodmark diff SCENARIO --sut A --against B`: where two runs or two systems part."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from harness.cli.options import option


@click.command()
@click.argument("names", nargs=-1, metavar="[A B | SCENARIO]")
@option("--sut", default="reference", show_default=True, metavar="NAME|MODULE:ATTR",
        help="The left system: a system under test, a planted defect, or a Variant of yours.")  # fmt: skip
@option("--against", default=None, metavar="NAME|MODULE:ATTR", help="The right system; also `flink`.")
@click.option("--mutant", default=None, metavar="NAME|MODULE:ATTR",
              help="The right system is the reference with this defect.")  # fmt: skip
@option("--level", type=click.Choice(["sim", "live"]), default="sim", show_default=True,
        help="How the scenario is run.")  # fmt: skip
@option("--runs", type=click.IntRange(min=1), default=None,
        help="Runs of each side, with consecutive seeds; of scripts or mail programs: how many at most.  "
             "[default: 1; scripts: 100; mail programs: 500]")  # fmt: skip
@option("--seed", type=click.IntRange(min=0), default=None,
        help="Seed of the first run; always printed.  [default: a new one]")  # fmt: skip
@option("--set", "settings", multiple=True, metavar="KEY=VALUE",
        help="Set a field of the scenario: workload.records=100.")  # fmt: skip
@option("--html", metavar="FILE", default=None, type=click.Path(path_type=Path, dir_okay=False),
        help="Write the difference as a page, too.")  # fmt: skip
@option("--format", "form", type=click.Choice(["pretty", "json"]), default="pretty", show_default=True,
        help="Format of standard output.")  # fmt: skip
def diff(
    names: tuple[str, ...],
    *,
    sut: str,
    against: str | None,
    mutant: str | None,
    seed: int | None,
    html: Path | None,
    form: str,
    **asked: Any,
) -> int:
    """Name the first event at which two runs part, and show what follows side by side.

    A B: two histories, or two folders of reports. SCENARIO: one scenario with two systems. Neither: two mailboxes on
    small programs of mail, or two systems over the operator protocol (reference, reference-emitter, flink).

    Exit code: 0 no difference, 1 a difference, 2 interrupted, 4 bad usage, scenario or history, 5 nothing to compare,
    11 the environment failed.
    """
    from harness.cli.diffing import DiffRequest, difference, told
    from harness.system.choices import fresh_seed
    from harness.system.errors import Exit, UsageError

    if mutant is not None and against is not None:
        message = f"--mutant {mutant} is the right system, and so is --against {against}"
        raise UsageError(message, fix="leave one of them out")
    wanted = DiffRequest(
        names=names,
        left=sut,
        right=against if mutant is None else mutant,
        seed=fresh_seed() if seed is None else seed,
        seed_given=seed is not None,
        **asked,
    )
    document = difference(wanted)
    click.echo(told(document, form))
    if html is not None:
        from reports.side_by_side import write_difference

        write_difference(document, html)
        click.echo(f"page     {html}", err=form != "pretty")
    return Exit.HOLD if document["same"] else Exit.VIOLATION
