"""`floodmark check FILE...`: check history files from any source (`docs/reference/history.md`).

Invariant: standard output holds only the judgements. The exit code is the worst of all files, in the order two judges
that disagree, violation, malformed file, environment, unknown or vacuous, pass.
"""

from __future__ import annotations

import sys
from contextlib import closing

import click

from harness.cli.options import invariant_option, jobs_option, on_option, option, speech_options
from harness.system.errors import Exit, UsageError, WorldError

_WORST_FIRST = (Exit.INTERNAL, Exit.VIOLATION, Exit.USAGE, Exit.ENVIRONMENT, Exit.UNDECIDED, Exit.HOLD)


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@invariant_option
@jobs_option("Files to check in parallel, each in its own process.")
@on_option(
    "Check a subtask at a time on Spark's executors: local[N], local-cluster[N,C,MB] or spark://HOST:PORT."
)
@option("--second", is_flag=True,
        help="Ask a second judge too, which shares no code with the first "
             "(harness/judge/second_judge.py).")  # fmt: skip
@speech_options
@click.pass_context
def check(
    context: click.Context,
    *,
    files: tuple[str, ...],
    invariants: tuple[str, ...],
    jobs: int,
    on: str | None,
    second: bool,
    form: str,
    quiet: bool,
    verbose: bool,
    no_color: bool,
) -> None:
    """Check history files: .jsonl, .jsonl.gz, .jsonl.zst, .arrow, .parquet, or a folder of .parquet files.

    FILE may be a pattern in quotes ('runs/**/*.jsonl'), or - for standard input. The worst file decides the exit code.

    Exit code: 0 all hold, 1 a violation, 2 interrupted, 3 the two judges disagree (--second), 4 malformed or not
    readable, 10 unknown or vacuous, 11 no disk space to buffer standard input or to write the output, or a format that
    needs an extra.
    """
    if second and on is not None:
        message = "--second judges on this machine, and --on sends histories to executors"
        raise UsageError(message, fix="leave one of them out")
    from harness.cli.history_files import opened
    from harness.cli.judging import Wish, answers, answers_on

    with opened(files) as histories:
        wish = Wish(invariants=invariants, form=form, quiet=quiet, verbose=verbose, second=second)
        codes: list[Exit] = []
        if on is not None:
            from harness.cli.run_campaign import refuse_no_spark

            refuse_no_spark(on)
        each = answers(histories, wish, jobs=jobs) if on is None else answers_on(on, histories, wish)
        with closing(each) as given:
            for answer in given:
                if answer.complaint:
                    click.echo(f"floodmark: {answer.complaint}", err=True)
                else:
                    _tell(answer.text, no_color=no_color)
                codes.append(answer.code)
    context.exit(min(codes, key=_WORST_FIRST.index))


def _tell(text: str, *, no_color: bool) -> None:
    """Prints to standard output; characters that its encoding lacks are escaped."""
    letters = getattr(sys.stdout, "encoding", None) or "utf-8"
    try:
        click.echo(
            text.encode(letters, "backslashreplace").decode(letters), color=False if no_color else None
        )
    except BrokenPipeError:
        raise
    except OSError as error:
        message = f"standard output cannot be written: {error.strerror or error}"
        raise WorldError(message, fix="free disk space where it is written") from error
