"""`floodmark schema`: the JSON Schema of scenario files, by which an editor completes and checks them."""

from __future__ import annotations

from pathlib import Path

import click

import harness

__all__ = ["schema"]


@click.command()
@click.option(
    "--path", "is_path", is_flag=True, help="Print where the installed file is, instead of its content."
)
def schema(*, is_path: bool) -> None:
    """Print the JSON Schema (draft 07) of scenario files.

    An editor uses it if the first line of a scenario file is `# yaml-language-server: $schema=PATH`.
    """
    file = Path(harness.__file__).resolve().with_name("schemas") / "scenario.v1.json"
    click.echo(file if is_path else file.read_text("utf-8"), nl=is_path)
