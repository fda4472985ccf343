"""The command that measures and prints the performance table, with the reason for what cannot be measured here."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from tools.bench.row import NotMeasured, Row


_PARTS = ("operator", "task", "judge", "executors", "world", "proxy", "spark")


@click.command()
@click.argument("what", nargs=-1, type=click.Choice(_PARTS))
@click.option("--pyflink", envvar="FLOODMARK_PYFLINK", metavar="PYTHON", type=click.Path(path_type=Path),
              help="The Python of an environment with apache-flink 2.3.0, as a peer of the operator.")  # fmt: skip
@click.option(
    "--large",
    is_flag=True,
    help="Judge a history of 10 million events too, on executors as well: some gigabytes of disk, tens of minutes.",
)
@click.option(
    "--events",
    type=click.IntRange(min=1_000_000),
    metavar="N",
    help="Judge a history of N events on executors, once, instead of the usual ones: 10^8 take 1.3 GB of disk.",
)
@click.option("--write", "page", metavar="FILE", type=click.Path(dir_okay=False, exists=True, path_type=Path),
              help="Put the tables into this page, each between its marks: docs/reference/performance.md.")  # fmt: skip
@click.option("--format", "form", envvar="FLOODMARK_FORMAT", default="pretty", show_default=True,
              type=click.Choice(["pretty", "json", "markdown"]), help="Of what is printed.")  # fmt: skip
def bench(
    what: tuple[str, ...],
    *,
    pyflink: Path | None,
    large: bool,
    events: int | None,
    page: Path | None,
    form: str,
) -> int:
    """Measure WHAT (default: everything): ratios and times within this run, each beside its goal.

    Exit code: 0 measured, whether the goals are met or not; 11 if nothing could be measured.
    """
    from harness.system.errors import Exit
    from tools.bench.row import NotMeasured, Row
    from tools.bench.table import as_json, as_markdown

    measured: list[Row | NotMeasured] = []
    for part in what or _PARTS:
        load = os.getloadavg()[0]
        rows = list(_measured(part, pyflink, large=large, events=events))
        for row in rows:
            if isinstance(row, NotMeasured):
                click.echo(f"not measured: {row.name}: {row.reason}", err=True)
        if page is not None:
            _write(page, part, rows, load)
        measured += rows
    click.echo(as_json(measured) if form == "json" else as_markdown(measured))
    return Exit.HOLD if any(isinstance(row, Row) for row in measured) else Exit.ENVIRONMENT


def _measured(
    part: str, pyflink: Path | None, *, large: bool, events: int | None
) -> Iterator[Row | NotMeasured]:
    match part:
        case "operator":
            from harness.world.settings import WorldSettings
            from tools.bench.operator_rows import operator_rows

            settings = WorldSettings.from_environment()
            yield from operator_rows(settings=settings, pyflink=pyflink, say=_progress)
        case "task":
            from tools.bench.task_rows import TaskSizes, task_rows

            yield from task_rows(sizes=TaskSizes(), say=_progress)
        case "judge":
            from tools.bench.judging import LARGE, Sizes, judging_rows

            yield from judging_rows(sizes=LARGE if large else Sizes(), say=_progress)
        case "executors":
            yield from _executor_rows(large=large, events=events)
        case "world":
            yield from _world_rows()
        case "proxy":
            from harness.world.settings import WorldSettings
            from tools.bench.proxy_rows import proxy_rows

            yield from proxy_rows(settings=WorldSettings.from_environment(), say=_progress)
        case _:
            yield from _spark_rows()


def _world_rows() -> Iterator[Row | NotMeasured]:
    from harness.system.errors import FloodmarkError
    from tools.bench.row import NotMeasured
    from tools.bench.world_ready import ready_row

    for kind in ("local", "containers"):
        for proxy in ("toxiproxy", "own"):
            _progress(f"world {kind}, {proxy} proxy")
            try:
                yield ready_row(kind, proxy=proxy)
            except FloodmarkError as error:
                yield NotMeasured(name=f"world {kind} ready, {proxy} proxy", reason=error.what)


def _executor_rows(*, large: bool, events: int | None) -> Iterator[Row | NotMeasured]:
    from harness.system.errors import FloodmarkError
    from tools.bench.row import NotMeasured

    try:
        from tools.bench.judging_on import rows_on_executors

        sizes, rounds = ((1_000_000, 10_000_000), 1) if large else ((1_000_000,), 3)
        if events is not None:
            sizes, rounds = (events,), 1
        yield from rows_on_executors(sizes=sizes, rounds=rounds, say=_progress)
    except FloodmarkError as error:
        yield NotMeasured(name="checking on executors", reason=error.what)
    except ImportError as error:
        yield NotMeasured(name="checking on executors", reason=str(error))


def _spark_rows() -> Iterator[Row | NotMeasured]:
    import tempfile

    from harness.system.errors import FloodmarkError
    from tools.bench.row import NotMeasured

    _progress("Spark")
    try:
        from tools.bench.spark_rows import spark_rows

        with tempfile.TemporaryDirectory(prefix="floodmark-bench-") as folder:
            yield from spark_rows(Path(folder))
    except FloodmarkError as error:
        yield NotMeasured(name="operator under Spark", reason=error.what)
    except ImportError as error:
        yield NotMeasured(name="operator under Spark", reason=str(error))


def _write(page: Path, part: str, rows: list[Row | NotMeasured], load: float) -> None:
    """Write the rows into the page, with date, machine and `load`, the load average before the measurement."""
    from harness.system.clock import utc_now
    from harness.system.versions import versions
    from tools.bench.table import as_markdown, replaced

    about = versions("live")
    origin = (
        f"{utc_now():%Y-%m-%d}; {os.cpu_count()} processors, {platform.system()} {platform.machine()}, load average "
        f"{load:.1f} at the beginning; Python {about['python']}, Floodmark {about['floodmark']}."
    )
    text = f"\n{as_markdown(rows)}\n\n{origin}\n"
    page.write_text(replaced(page.read_text("utf-8"), part, text), encoding="utf-8")


def _progress(sentence: str) -> None:
    click.echo(f"  {sentence} ...", err=True)
