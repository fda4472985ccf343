"""The command that compares four forms of lookups on a real database, over many draws."""

from __future__ import annotations

import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from harness.world.world import World


_MORE_RECORDS = 10
"""The second experiment has this many times the records for the same slots, and fewer draws by the same factor."""


@click.command()
@click.option(
    "--draws", default=200, show_default=True, type=click.IntRange(10), help="Of the first experiment."
)
@click.option("--seed", envvar="FLOODMARK_SEED", default=1, show_default=True, type=int, metavar="N",
              help="Of the draws.")  # fmt: skip
@click.option("--world", "kind", envvar="FLOODMARK_WORLD", default="auto", show_default=True,
              type=click.Choice(["auto", "containers", "local"]), help="Where the database runs.")  # fmt: skip
@click.option("--proxy", envvar="FLOODMARK_PROXY", default="auto", show_default=True,
              type=click.Choice(["auto", "own", "toxiproxy"]), help="Stands before it, does nothing.")  # fmt: skip
@click.option("--write", "page", metavar="FILE", type=click.Path(dir_okay=False, exists=True, path_type=Path),
              help="Put the tables into this page, the chart beside it: docs/reference/experiments.md.")  # fmt: skip
def experiments(*, draws: int, seed: int, kind: str, proxy: str, page: Path | None) -> int:
    """Look the same records up one by one, on threads, ordered and unordered, and compare, over many draws.

    Exit code: 0 measured; 11 if there is no database to measure on.
    """
    from harness.system.errors import Exit
    from harness.world.setup.opening import open_world
    from tools.bench.experiment import ExperimentPlan, experiment
    from tools.bench.experiment_page import chart, section

    small = ExperimentPlan(draws=draws, seed=seed)
    large = ExperimentPlan(draws=draws // _MORE_RECORDS, records=small.records * _MORE_RECORDS, seed=seed)
    load = os.getloadavg()[0]
    with open_world(kind, proxy=proxy, announce=_say) as world:
        measured = [(plan, experiment(world, plan, say=_say)) for plan in (small, large)]
        text = "\n\n".join([*(section(plan, drawn) for plan, drawn in measured), _origin(world, load)])
    click.echo(text)
    if page is not None:
        _write(page, text, chart(measured))
    return Exit.HOLD


def _origin(world: World, load: float) -> str:
    """Date, server, machine and versions, for the page."""
    from harness.system.clock import utc_now
    from harness.system.versions import versions

    about = versions("live")
    return (
        f"{utc_now():%Y-%m-%d}; {world.description.server} behind {world.description.proxy}; {os.cpu_count()} "
        f"processors, {platform.system()} {platform.machine()}, load average {load:.1f} at the beginning; "
        f"Python {about['python']}, Floodmark {about['floodmark']}."
    )


def _write(page: Path, text: str, drawing: str) -> None:
    from tools.bench.table import replaced

    body = f"\n{text}\n\n![Spreads of the four forms](experiments.svg)\n"
    page.write_text(replaced(page.read_text("utf-8"), "experiments", body), encoding="utf-8")
    page.with_name("experiments.svg").write_text(drawing, encoding="utf-8")
    _say(f"wrote {page} and {page.with_name('experiments.svg')}")


def _say(sentence: str) -> None:
    click.echo(f"  {sentence}", err=True)
