"""`floodmark trend FOLDER...`: the runs of several reports over time, which are slower than the others, what is flaky.

Invariant: it reads `run.json` alone, and starts nothing.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.options import open_page, speech_options

if TYPE_CHECKING:
    from reports.over_time import Point, TrendSeries


@click.command()
@click.argument("folders", nargs=-1, required=True, metavar="FOLDER...", type=click.Path(path_type=Path))
@click.option("--page", type=click.Path(dir_okay=False, path_type=Path), default=None, metavar="FILE.html",
              help="Write a page with small charts to this file.")  # fmt: skip
@click.option("--fail-on", "fails_on", type=click.Choice(["slower"]), default=None,
              help="slower: exit code 1 if the newest report of a scenario is slower.")  # fmt: skip
@click.option("--open", "shows_page", is_flag=True, help="Show the page in the browser; not where CI is set.")
@speech_options
def trend(
    folders: tuple[Path, ...],
    *,
    page: Path | None,
    fails_on: str | None,
    shows_page: bool,
    form: str,
    quiet: bool,
    verbose: bool,
    no_color: bool,
) -> int:
    """Compare reports over time: FOLDERs of reports, or of many of them, such as reports/out.

    For each scenario: recovery, latency, calls for each record, runs and vacuous verdicts of each report, the oldest
    first. A report is slower if its median run leaves the band that those before it set.

    Exit code: 0 told, 1 with --fail-on slower if the newest is, 4 no report there.
    """
    from harness.system.errors import Exit, UsageError
    from reports.over_time import series_of, trend_document
    from reports.past_report import past_reports
    from reports.trend_page import write_trend

    del quiet, verbose  # nothing takes long
    if shows_page and page is None:
        raise UsageError("--open shows the page, and no --page is named", fix="add --page trend.html")
    series = series_of(past_reports(folders))
    if page is not None:
        write_trend(series, page)
    match form:
        case "json":
            click.echo(json.dumps(trend_document(series), indent=2))
        case "markdown" | "github":
            click.echo("\n".join(_markdown(series)))
        case _:
            _print(series, no_color=no_color)
    if page is not None:
        click.echo(f"page     {page}", err=form != "pretty")
        open_page(page, wanted=shows_page)
    newest_is_slower = any(one.points[-1].slower for one in series)
    return Exit.VIOLATION if fails_on and newest_is_slower else Exit.HOLD


def _print(series: Sequence[TrendSeries], *, no_color: bool) -> None:
    from rich import box
    from rich.table import Table
    from rich.text import Text

    from harness.history.values import visible
    from reports.pretty import terminal

    console = terminal(sys.stdout, color=False if no_color else None)
    for one in series:
        console.print(Text(visible(one.title), style="bold"), soft_wrap=True)
        table = Table(box=box.SIMPLE_HEAD)
        for place, heading in enumerate(_headings()):
            table.add_column(heading, justify="left" if place == 0 else "right", overflow="fold")
        for point in one.points:
            style = "red" if point.slower else ""
            table.add_row(*(Text(visible(cell), style=style) for cell in _cells(point)))
        console.print(table)
        for line in one.told():
            console.print(Text(visible(f"  {line}")), soft_wrap=True)
        console.print()


def _markdown(series: Sequence[TrendSeries]) -> Iterator[str]:
    from reports.markdown import plain_text

    for one in series:
        yield f"### {plain_text(one.title)}"
        yield ""
        yield f"| {' | '.join(_headings())} |"
        yield f"|---|{'--:|' * (len(_headings()) - 1)}"
        yield from (f"| {' | '.join(map(plain_text, _cells(point)))} |" for point in one.points)
        yield ""
        yield from (f"- {plain_text(line)}" for line in one.told())
        yield ""


def _headings() -> list[str]:
    from reports.over_time import SHOWN

    return ["report", "runs", "as expected", "vacuous", *(name.replace("_", " ") for name in SHOWN), ""]


def _cells(point: Point) -> list[str]:
    from harness.scenario.outcome import measure_text
    from reports.over_time import SHOWN

    values = [measure_text(name, point.values[name]) if name in point.values else "-" for name in SHOWN]
    vacuous = str(point.verdicts.get("vacuous", 0))
    return [
        point.report,
        str(point.runs),
        str(point.as_expected),
        vacuous,
        *values,
        "slower" if point.slower else "",
    ]
