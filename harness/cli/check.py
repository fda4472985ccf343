"""`floodmark check FILE...`: judge histories, from anywhere (`docs/reference/history.md`).

Invariant: standard output holds the judgements and nothing else; the exit code is the worst of all files: a
violation beats a malformed file beats unknown or vacuous beats pass.
"""

from __future__ import annotations

import sys
from contextlib import closing

import click

from harness.cli.options import invariant_option, jobs_option, speech_options
from harness.errors import Exit, WorldError

__all__ = ["check"]

_WORST_FIRST = (Exit.VIOLATION, Exit.USAGE, Exit.UNDECIDED, Exit.HOLD)


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@invariant_option
@jobs_option("Files at a time, each in a process of its own.")
@speech_options
@click.pass_context
def check(
    context: click.Context,
    *,
    files: tuple[str, ...],
    invariants: tuple[str, ...],
    jobs: int,
    form: str,
    quiet: bool,
    verbose: bool,
    no_color: bool,
) -> None:
    """Judge histories, whoever wrote them: .jsonl, .jsonl.gz, .jsonl.zst, .arrow, .parquet.

    FILE may be a pattern in quotes ('runs/**/*.jsonl'), or - for standard input. Of several files the worst decides.

    Exit code: 0 all hold, 1 a violation, 2 interrupted, 4 malformed or not readable, 10 unknown or vacuous,
    11 no room for standard input, or for what is printed.
    """
    from harness.cli.history_files import opened
    from harness.cli.judging import Wish, answers

    with opened(files) as histories:
        wish = Wish(invariants=invariants, form=form, quiet=quiet, verbose=verbose)
        codes: list[Exit] = []
        with closing(answers(histories, wish, jobs=jobs)) as given:
            for answer in given:
                if answer.complaint:
                    click.echo(f"floodmark: {answer.complaint}", err=True)
                else:
                    _tell(answer.text, no_color=no_color)
                codes.append(answer.code)
    context.exit(min(codes, key=_WORST_FIRST.index))


def _tell(text: str, *, no_color: bool) -> None:
    """On standard output, in letters that it knows."""
    letters = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        click.echo(
            text.encode(letters, "backslashreplace").decode(letters), color=False if no_color else None
        )
    except BrokenPipeError:
        raise
    except OSError as error:
        message = f"standard output cannot be written: {error.strerror or error}"
        raise WorldError(message, fix="make room where it goes") from error
