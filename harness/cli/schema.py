"""`floodmark schema`: the JSON Schema of scenario files or job files, by which an editor completes and checks them."""

from __future__ import annotations

from pathlib import Path

import click

import harness


@click.command()
@click.option("--job", "of_jobs", is_flag=True, help="The schema of job files (job.toml).")
@click.option("--path", "is_path", is_flag=True,
              help="Print where the installed file is, instead of its content.")  # fmt: skip
def schema(*, of_jobs: bool, is_path: bool) -> None:
    """Print the JSON Schema (draft 07) of scenario files, or with --job of job files.

    An editor uses it if the first line of a scenario file is `# yaml-language-server: $schema=PATH`, and that of a
    job.toml `#:schema PATH`.
    """
    name = "job.v1.json" if of_jobs else "scenario.v1.json"
    file = Path(harness.__file__).resolve().with_name("schemas") / name
    click.echo(file if is_path else file.read_text("utf-8"), nl=is_path)
