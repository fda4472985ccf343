"""What `run` and `demo` do alike: carry the campaign out, write the report, print it.

Invariant: what was asked for and its seeds are printed before the first run; the report is written however
the campaign ended, as long as one run left something to report.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from harness.cli.interrupt import stop_on_interrupt
from harness.cli.progress import observing
from harness.engine.campaign import Finished, carry_out
from harness.engine.stage import Keep, StagePlan, abilities_needed
from harness.errors import NothingRan
from harness.runs.order import Order, new_run_id
from harness.world.proxy_choice import PACKETS
from reports.machine import render
from reports.pretty import print_outcomes, terminal
from reports.write import write_report

__all__ = ["go"]


def go(
    orders: Sequence[Order],
    *,
    title: str,
    world: str,
    proxy: str = "auto",
    jobs: int = 1,
    report: Path | None,
    keep: Keep,
    budget: float | None,
    offline: bool,
    form: Any,
    quiet: bool,
    verbose: bool,
    no_color: bool,
) -> Finished:
    """Carry `orders` out, write their report, print it. Raises NothingRan if there is nothing to report."""
    run_id = new_run_id()
    folder = report if report is not None else Path("reports") / "out" / run_id
    plan = StagePlan(
        run_id=run_id,
        report=folder,
        world=world,
        proxy=proxy,
        # A proxy that some run needs serves them all; what changes the server is for the runs that need it.
        needs=frozenset().union(*[abilities_needed(order) for order in orders]) & {PACKETS},
        lanes=min(jobs, len(orders)),
        keep=keep,
        offline=offline,
    )
    with stop_on_interrupt() as stop, observing(quiet=quiet, verbose=verbose, no_color=no_color) as observer:
        finished = carry_out(orders, plan, observer=observer, stop=stop, budget_s=budget)
    if not finished.outcomes:
        if finished.interrupted:
            raise KeyboardInterrupt
        message = "nothing ran: the budget was over before the first run"
        raise NothingRan(message, fix="give a larger --budget")
    page = write_report(finished.outcomes, folder, title=title, secrets=finished.secrets)
    if form == "pretty":
        print_outcomes(finished.outcomes, console=terminal(sys.stdout, color=False if no_color else None))
        click.echo(f"report   {page}")
    else:
        click.echo(render(finished.outcomes, form, title=title), nl=False)
    _say_what_is_missing(finished)
    return finished


def _say_what_is_missing(finished: Finished) -> None:
    for sentence in finished.left_out:
        click.echo(f"floodmark: {sentence}", err=True)
    missing = finished.asked - len(finished.outcomes)
    if missing:
        here = "this world has no means for them" if finished.left_out else "the budget is over"
        why = "interrupted" if finished.interrupted else finished.error or here
        click.echo(f"floodmark: {missing} of {finished.asked} runs did not run: {why}", err=True)
