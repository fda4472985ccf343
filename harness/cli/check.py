"""`floodmark check FILE...`: judge histories, from anywhere (`docs/history.md`).

Invariant: standard output holds the judgements and nothing else; the exit code is the worst of all files: a
violation beats a malformed file beats unknown or vacuous beats pass.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from harness.cli.options import speech_options
from harness.errors import Exit, UsageError

if TYPE_CHECKING:
    from harness.checkers.judge import Malformed
    from harness.verdict import Judgement

__all__ = ["check"]

_WORST_FIRST = (Exit.VIOLATION, Exit.USAGE, Exit.UNDECIDED, Exit.HOLD)

_COLOURS = {Exit.VIOLATION: "red", Exit.USAGE: "red", Exit.UNDECIDED: "yellow", Exit.HOLD: "green"}


@click.command()
@click.argument("files", nargs=-1, required=True, metavar="FILE...", type=click.Path(path_type=Path))
@speech_options
@click.pass_context
def check(
    context: click.Context,
    *,
    files: tuple[Path, ...],
    form: str,
    quiet: bool,
    verbose: bool,
    no_color: bool,
) -> None:
    """Judge histories (.jsonl, .jsonl.gz, .jsonl.zst), whoever wrote them.

    Exit code: 0 all hold, 1 a violation, 4 malformed, 10 unknown or vacuous.
    """
    from harness.checkers.judge import judge_file
    from harness.history.strict_json import integers_of_any_length

    del quiet, verbose  # the judgement is the answer; there is neither less nor more to say
    _all_readable(files)
    codes: list[Exit] = []
    for path in files:
        with integers_of_any_length():
            judged = judge_file(path)
            said = _printed(click.format_filename(path), judged, form)
        click.echo(said, color=False if no_color else None)
        codes.append(_code(judged))
    context.exit(min(codes, key=_WORST_FIRST.index))


def _all_readable(files: tuple[Path, ...]) -> None:
    """Before anything is judged, tell of every file that cannot be."""
    problems = [problem for path in files if (problem := _problem(path))]
    if problems:
        raise UsageError("; ".join(problems), fix="name history files: .jsonl, .jsonl.gz or .jsonl.zst")


def _problem(path: Path) -> str:
    try:
        if path.is_dir():
            return f"{path} is a directory, not a history"
        with path.open("rb"):
            return ""
    except FileNotFoundError:
        return f"there is no file {path}"
    except OSError as error:
        return f"{path} cannot be read: {error.strerror or error}"


def _printed(name: str, judged: Judgement | Malformed, form: str) -> str:
    import json

    from harness.cli import judgement_text

    match form:
        case "json":
            return json.dumps(judged.as_json(), separators=(",", ":"))
        case "markdown":
            return "\n".join(judgement_text.markdown(name, judged))
        case "github":
            return "\n".join(judgement_text.github(name, judged))
        case _:
            first, *others = judgement_text.pretty(name, judged)
            return "\n".join([click.style(first, fg=_COLOURS[_code(judged)], bold=True), *others])


def _code(judged: Judgement | Malformed) -> Exit:
    from harness.verdict import Judgement

    return judged.outcome.exit_code if isinstance(judged, Judgement) else Exit.USAGE
