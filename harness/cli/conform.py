"""`floodmark conform -- COMMAND`: judges any program that speaks the operator protocol, and writes a certificate.

Invariant: every mistake in the arguments is reported before anything is started.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from harness.cli.options import option


@click.command()
@click.argument("command", nargs=-1, metavar="[-- COMMAND...]")
@option("--profile", type=click.Choice(["strict", "flink"]), default="strict", show_default=True,
        help="What it is asked to serve and judged by; flink: the quirks of Flink 2.3.")  # fmt: skip
@option("--seed", type=click.IntRange(min=0), default=1, show_default=True,
        help="Seed of the random scripts; equal seeds give equal scripts.")  # fmt: skip
@option("--scripts", type=click.IntRange(min=0), default=200, show_default=True,
        help="Random scripts of each mode; 0: conversations only.")  # fmt: skip
@option("--beside", default="", metavar="NAME,...|all",
        help="Others on the same page: reference, reference-flink, flip-12, flink-1.20, flink-2.0, flink-2.3, or all. "
             "COMMAND may then be left out.")  # fmt: skip
@click.option("--also", "others", multiple=True, metavar="LABEL=COMMAND",
              help="A further program to judge, on the same page; repeatable.")  # fmt: skip
@click.option("--label", default=None, metavar="TEXT",
              help="What COMMAND is called in the certificate.  [default: its own name]")  # fmt: skip
@click.option("--answer-within", "answer_s", type=click.FloatRange(min=0.1), default=10.0, show_default=True,
              metavar="SECONDS", help="How long an answer may take before the program counts as hung.")  # fmt: skip
@option("--report", type=click.Path(path_type=Path, file_okay=False), default=None,
        help="Folder of the certificate.  [default: reports/out/ID-conform]")  # fmt: skip
@option("--format", "form", type=click.Choice(["pretty", "json"]), default="pretty", show_default=True,
        help="Format of standard output.")  # fmt: skip
def conform(command: tuple[str, ...], *, beside: str, **asked: Any) -> int:
    """Judge an operator in any language: COMMAND speaks the operator protocol on standard input and output.

    Some 250 conversations, then random scripts with a stated seed, each against the reference. A case that fails is
    printed with the lines to paste into the program.

    Exit code: 0 all hold, 1 a case fails, 2 interrupted, 3 the two judges disagree, 4 bad usage, or a program that
    cannot be started or does not speak the protocol at all, 5 nothing to judge, 10 nothing was shown,
    11 the environment failed.
    """
    from harness.cli.conforming import ConformRequest, carry_out

    names = tuple(name for name in beside.replace(" ", "").split(",") if name)
    return carry_out(ConformRequest(command=command, beside=names, **asked))
