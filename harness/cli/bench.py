"""`floodmark bench`: the performance table; what this machine cannot measure is said, not left out."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from harness.bench.row import Row

__all__ = ["bench"]


@click.command()
@click.argument("what", nargs=-1, type=click.Choice(["spark", "world"]))
@click.option("--format", "form", envvar="FLOODMARK_FORMAT", default="pretty", show_default=True,
              type=click.Choice(["pretty", "json", "markdown"]), help="Of what is printed.")  # fmt: skip
def bench(what: tuple[str, ...], form: str) -> int:
    """Measure WHAT (default: everything): ratios and times within this run, each beside its goal.

    Exit code: 0 measured, whether the goals are met or not; 11 if nothing could be measured.
    """
    from harness.errors import Exit

    rows, skipped = _measure(what or ("spark", "world"))
    for reason in skipped:
        click.echo(f"not measured: {reason}", err=True)
    click.echo(_rendered(rows, form))
    return Exit.HOLD if rows else Exit.ENVIRONMENT


def _measure(what: tuple[str, ...]) -> tuple[list[Row], list[str]]:
    import tempfile
    from pathlib import Path

    from harness.bench.world_ready import ready_row
    from harness.errors import FloodmarkError

    rows: list[Row] = []
    skipped: list[str] = []
    if "world" in what:
        for kind in ("local", "containers"):
            try:
                rows.append(ready_row(kind))
            except FloodmarkError as error:
                skipped.append(f"world {kind}: {error}")
    if "spark" in what:
        try:
            from harness.spark.bench import spark_rows

            with tempfile.TemporaryDirectory(prefix="floodmark-bench-") as folder:
                rows += spark_rows(Path(folder))
        except (FloodmarkError, ImportError) as error:
            skipped.append(f"spark: {error}")
    return rows, skipped


def _rendered(rows: list[Row], form: str) -> str:
    if form == "json":
        return json.dumps([{**asdict(row), "met": row.met} for row in rows])
    head = ["| measure | median | goal | met | rounds | detail |", "|---|---|---|---|---|---|"]
    return "\n".join([*head, *(_line(row) for row in rows)])


def _line(row: Row) -> str:
    goal = f"{'>=' if row.larger_is_better else '<='} {row.goal} {row.unit}"
    met = "yes" if row.met else "NO"
    return f"| {row.name} | {row.value:.2f} {row.unit} | {goal} | {met} | {row.rounds} | {row.detail} |"
