"""`floodmark sut`: speak the operator protocol, so that any harness can drive an operator of this project."""

from __future__ import annotations

import click

__all__ = ["serve", "sut"]


@click.group()
def sut() -> None:
    """Systems under test, as programs that speak the operator protocol."""


@sut.command()
@click.argument("name")
def serve(*, name: str) -> int:
    """Speak the operator protocol as NAME on standard input and output, to the end of the input.

    NAME: reference, reference-emitter, or flink (the real one; `floodmark setup --oracle` gets it).
    """
    from harness.cli.serving import serve as serve_named

    return serve_named(name)
