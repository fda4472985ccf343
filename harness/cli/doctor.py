"""`floodmark doctor`: what works here and what does not; each line that does not has its fix."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from harness.cli.options import speech_options
from harness.errors import Exit

if TYPE_CHECKING:
    from harness.cli.checkup import Diagnosis

__all__ = ["doctor"]

COLOURS = {"ok": "green", "warn": "yellow", "FAIL": "red"}


@click.command()
@speech_options
def doctor(*, form: str, quiet: bool, verbose: bool, no_color: bool) -> Exit:
    """Say what works here and what does not, with the fix for each.

    Exit code: 0 if at least one world and Java work, 11 otherwise.
    """
    from harness.cli.checkup import examine
    from harness.world.settings import WorldSettings

    del quiet, verbose  # every line is the answer; there is neither less nor more to say
    diagnosis = examine(WorldSettings.from_environment())
    if form == "json":
        click.echo(_json(diagnosis))
    else:
        _print_lines(diagnosis, color=False if no_color else None)
    return Exit.HOLD if diagnosis.well else Exit.ENVIRONMENT


def _print_lines(diagnosis: Diagnosis, *, color: bool | None) -> None:
    for check in diagnosis.checks:
        state = click.style(f"{check.state:<4}", fg=COLOURS[check.state])
        click.echo(f"{state}  {check.name:<8} {check.says}", color=color)
        if check.fix:
            click.echo(f"                fix: {check.fix}", color=color)


def _json(diagnosis: Diagnosis) -> str:
    checks = [asdict(check) for check in diagnosis.checks]
    return json.dumps({"well": diagnosis.well, "worlds": diagnosis.worlds, "checks": checks}, indent=2)
