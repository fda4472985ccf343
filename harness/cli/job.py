"""`floodmark job SCENARIO... --job job.toml`: put a user's own job under fire, judge its table, write a report.

Invariant: every mistake in the arguments, the job file and the scenarios is reported before anything is started.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from harness.cli.options import run_options

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from harness.jobs.job_file import JobFile
    from harness.jobs.job_scenario import JobScenario
    from harness.jobs.order import JobOrder

__all__ = ["job"]

_CAMPAIGN = (
    "world", "proxy", "jobs", "report", "keep", "budget", "offline", "form", "quiet", "verbose", "no_color",
)  # fmt: skip
"""The options passed on to `campaigning.go`."""


@click.command()
@click.argument("scenarios", nargs=-1, metavar="[SCENARIO]...")
@click.option("--job", "given", envvar="FLOODMARK_JOB", required=True, metavar="FILE|COMMAND",
              help="The job: a job.toml, a folder with one, a command ('python job.py') or module:function.")  # fmt: skip
@click.option("--calm-only", envvar="FLOODMARK_CALM_ONLY", is_flag=True,
              help="Run the job once without faults, to see that it works and how fast it is.")  # fmt: skip
@click.option("--expected", envvar="FLOODMARK_EXPECTED", default=None, metavar="MODULE:FUNCTION|calm|none",
              help="What the table must hold: `def expected(record, rows) -> list`; calm: what the job writes without "
                   "faults; none: values are not judged.  [default: `claims.expected` of the job file]")  # fmt: skip
@click.option("--runs", envvar="FLOODMARK_RUNS", type=click.IntRange(min=1), default=1, show_default=True,
              help="Runs of each scenario, with consecutive seeds.")  # fmt: skip
@click.option("--data-seed", envvar="FLOODMARK_DATA_SEED", type=click.IntRange(min=0), default=None,
              help="Seed of the records and rows, the same in all runs.  [default: that of the first run]")  # fmt: skip
@click.option("--jobs", envvar="FLOODMARK_JOBS", type=click.IntRange(min=1), default=None,
              help="Parallel runs, each in its own world.  [default: 1]")  # fmt: skip
@click.option("--fail-on", envvar="FLOODMARK_FAIL_ON", type=click.Choice(["pitfall"]), default=None,
              help="pitfall: a run that shows a pitfall fails, with exit code 1.")  # fmt: skip
@click.option("--set", "settings", envvar="FLOODMARK_SET", multiple=True, metavar="KEY=VALUE",
              help="Set a field of the scenario: records=100, faults.kill.when.nth=3.")  # fmt: skip
@click.option("--tag", "tags", envvar="FLOODMARK_TAG", multiple=True, metavar="TAG",
              help="Run only scenarios with this tag; repeatable: with all these tags.")  # fmt: skip
@run_options
def job(scenarios: tuple[str, ...], **asked: Any) -> int:
    """Put your own job under fire: SCENARIOs are files, folders, or names from `floodmark list scenarios`.

    Exit code: 0 all hold, 1 a violation, 2 interrupted, 4 bad usage, job file or scenario, 5 nothing ran,
    10 unknown or vacuous, 11 the environment failed, or the job does not work without faults.
    """
    from harness.cli.campaigning import go

    orders = list(_orders(scenarios, asked))
    title = ", ".join(dict.fromkeys(order.scenario.scenario for order in orders))
    return go(orders, title=title, **{name: asked[name] for name in _CAMPAIGN}).exit_code
