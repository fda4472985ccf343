"""`floodmark doctor`: shows what works on this machine and what does not, with a fix for each problem."""

from __future__ import annotations

import json
from dataclasses import asdict

import click

from harness.cli.options import option, speech_options
from harness.system.errors import Exit
from harness.system.levels import OPERATOR_LEVELS

COLOURS = {"ok": "green", "warn": "yellow", "FAIL": "red"}


@click.command()
@option("--level", type=click.Choice(OPERATOR_LEVELS),
        help="Judge only what this level needs; without it: a world and Java.")  # fmt: skip
@speech_options
def doctor(*, level: str | None, form: str, quiet: bool, verbose: bool, no_color: bool) -> Exit:
    """Show what works on this machine and what does not, with a fix for each problem.

    Exit code: 0 if at least one world and Java work, or with --level if that level runs here; 11 otherwise.
    """
    from harness.cli.checkup import examine
    from harness.world.settings import WorldSettings

    del quiet, verbose  # the output is always the same
    diagnosis = examine(WorldSettings.from_environment(), level=level)
    if form == "json":
        checks = [asdict(check) for check in diagnosis.checks]
        document = {"well": diagnosis.well, "worlds": diagnosis.worlds, "checks": checks}
        click.echo(json.dumps(document, indent=2))
    else:
        color = False if no_color else None
        for check in diagnosis.checks:
            state = click.style(f"{check.state:<4}", fg=COLOURS[check.state])
            click.echo(f"{state}  {check.name:<8} {check.says}", color=color)
            if check.fix:
                click.echo(f"                fix: {check.fix}", color=color)
    return Exit.HOLD if diagnosis.well else Exit.ENVIRONMENT
