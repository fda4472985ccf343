"""`floodmark sut`: serves an operator over the operator protocol, so that other harnesses can drive it."""

from __future__ import annotations

import click


@click.group()
def sut() -> None:
    """Serve systems under test over the operator protocol."""


@sut.command()
@click.argument("name")
def serve(*, name: str) -> int:
    """Serve the operator NAME over the operator protocol on standard input and output, until the input ends.

    NAME: reference, reference-emitter, flink (the real Flink; `floodmark setup --oracle` gets it), or flink-1.20,
    flink-2.0 and flink-2.3 (`--oracle --flink 1.20`).
    """
    from harness.cli.serving import serve as serve_named

    return serve_named(name)
