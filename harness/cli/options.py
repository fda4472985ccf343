"""The options that several commands share, with the same name, meaning and environment variable.

Precedence: command line, environment (`FLOODMARK_<OPTION>`), pyproject.toml, default.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from harness.history.verdict import INVARIANTS, NOT_ON_A_HISTORY
from harness.system.errors import UsageError

if TYPE_CHECKING:
    from reports.past_report import PastReport

_Command = TypeVar("_Command", bound=Callable[..., Any])


def _option(*names: str, env: str, **rest: Any) -> Callable[[_Command], _Command]:
    return click.option(*names, envvar=f"FLOODMARK_{env}", **rest)


def refuse_no_world(level: str, world: str) -> None:
    """Raises UsageError if `level` starts processes but `world` has no real database."""
    if world == "simulated" and level != "sim":
        message = f"--world simulated has no database server, and --level {level} needs one"
        raise UsageError(message, fix="add --level sim, or leave --world out")


def invariant_option(command: _Command) -> _Command:
    """`--invariant`: the chosen invariants in their documented order; all if none is chosen."""
    about = "Check these invariants only; repeatable, or separated by commas.  [default: all]"
    return _option("--invariant", "invariants", env="INVARIANT", multiple=True, metavar="V8,V10",
                   callback=_chosen, help=about)(command)  # fmt: skip


def only_option(command: _Command) -> _Command:
    """`--only`: the invariants whose violations count; all if none is chosen."""
    about = "Only violations of these invariants count; repeatable, or separated by commas.  [default: all]"
    return _option("--only", env="ONLY", multiple=True, metavar="V8,V10", callback=_chosen, help=about)(
        command
    )


def _chosen(_ctx: click.Context, parameter: click.Parameter, given: Sequence[str]) -> tuple[str, ...]:
    asked = [name.strip() for words in given for name in words.split(",")]
    option = parameter.opts[0]
    if problems := [problem for name in asked if (problem := _not_an_invariant(name, option))]:
        raise UsageError("; ".join(problems), fix="`floodmark list invariants` lists them")
    return tuple(name for name in INVARIANTS if name in asked or not asked)


def _not_an_invariant(name: str, option: str) -> str:
    if name in INVARIANTS:
        return ""
    if name in NOT_ON_A_HISTORY:
        return f"{option} {name} is not checked on histories: {NOT_ON_A_HISTORY[name]}"
    close = get_close_matches(name.upper(), INVARIANTS, n=1)
    return f"{option}: there is no {name!r}" + (f", did you mean {close[0]!r}?" if close else "")


def on_option(about: str) -> Callable[[_Command], _Command]:
    """`--on`, with `about` as its help."""
    return _option("--on", env="ON", default=None, metavar="MASTER", help=about)


def refuse_on_at(level: str, on: str | None) -> None:
    """Raises UsageError if runs at `level` cannot be sent to the executors of `--on`."""
    if on is not None and level != "sim":
        message = f"--on {on} sends simulated runs to executors, and a run at level {level} needs a world of its own"
        raise UsageError(message, fix="add --level sim, or leave --on out")


def own_files_options(command: _Command) -> _Command:
    """`--schema`, `--data`, `--records`: the files of the user's own tables and input."""
    file = click.Path(path_type=Path)
    for option in (
        _option("--schema", "own_schema", env="SCHEMA", type=file, default=None, metavar="FILE.sql",
                help="SQL that makes the tables of your lookup (levels live, spark)."),
        _option("--data", "own_data", env="DATA", type=file, multiple=True, metavar="FILE",
                help="Fills these tables: SQL, or CSV or JSON lines named after their table; repeatable."),
        _option("--records", "own_records", env="RECORDS", type=file, default=None, metavar="FILE.jsonl",
                help="The input, a JSON object a record: key, and if you like id, ts, and what your lookup reads."),
    ):  # fmt: skip
        command = option(command)
    return command


def own_files_words(asked: Mapping[str, Any]) -> list[str]:
    """The same options as words of a command line."""
    data = [("--data", file) for file in asked["own_data"]]
    named = [("--schema", asked["own_schema"]), *data, ("--records", asked["own_records"])]
    return [word for option, file in named if file is not None for word in (option, str(file))]


def jobs_option(about: str) -> Callable[[_Command], _Command]:
    """`--jobs`, with `about` as its help."""
    return _option("--jobs", env="JOBS", type=click.IntRange(min=1), default=1, show_default=True, help=about)


def speech_options(command: _Command) -> _Command:
    """`--format`, `--quiet`, `--verbose`, `--no-color`."""
    forms = click.Choice(["pretty", "json", "markdown", "github"])
    for option in (
        _option("--format", "form", env="FORMAT", type=forms, default="pretty", show_default=True,
                help="Format of standard output."),
        _option("--quiet", "-q", env="QUIET", is_flag=True, help="Show no progress."),
        _option("--verbose", "-v", env="VERBOSE", is_flag=True, help="Print a line for each phase, on a terminal too."),
        _option("--no-color", env="NO_COLOR", is_flag=True, callback=_no_color,
                help="No colour; NO_COLOR and TERM=dumb have the same effect."),
    ):  # fmt: skip
        command = option(command)
    return command


def _no_color(_ctx: click.Context, _parameter: click.Parameter, value: bool) -> bool:  # noqa: FBT001 - click's form
    """The option, or the environment variables of no-color.org."""
    return value or bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"


def baseline_option(command: _Command) -> _Command:
    """`--baseline`: the report to compare with."""
    about = "Tell what changed since an earlier report: its folder, its run.json or its run id."
    return _option("--baseline", env="BASELINE", default=None, metavar="RUN", help=about)(command)


def earlier_report(named: str | None) -> PastReport | None:
    """The report of `--baseline`, read before anything runs. Raises UsageError or HistoryError."""
    if named is None:
        return None
    from harness.cli.reported_runs import REPORTS
    from reports.past_report import report_of

    place = Path(named)
    return report_of(REPORTS / named if not place.exists() and (REPORTS / named).exists() else place)


def open_option(command: _Command) -> _Command:
    """`--open`: show the page in the browser when it is written."""
    about = "Show the page in the browser when it is written; not where CI is set."
    return _option("--open", "opens", env="OPEN", is_flag=True, help=about)(command)


def open_page(page: Path, *, wanted: bool) -> None:
    """Shows the page at `page` in the browser; a sentence if that cannot be, for the command has done its work.

    Under CI it opens nothing, since a browser there would never end.
    """
    if not wanted:
        return
    if os.environ.get("CI"):
        click.echo("floodmark: --open: CI is set, so no browser is started", err=True)
        return
    import webbrowser

    if not webbrowser.open(page.resolve().as_uri()):
        click.echo(f"floodmark: --open: no browser was found; open {page} yourself", err=True)


def proxy_option(command: _Command) -> _Command:
    """`--proxy`: the proxy between the operator and the database."""
    about = "Proxy of the database; auto: Toxiproxy if installed, else (or if a fault needs MySQL packets) our own."
    return _option("--proxy", env="PROXY", type=click.Choice(["auto", "own", "toxiproxy"]), default="auto",
                   show_default=True, help=about)(command)  # fmt: skip


def run_options(command: _Command) -> _Command:
    """The options that `run`, `demo` and `mutants` share."""
    for option in (
        _option("--world", env="WORLD", type=click.Choice(["auto", "containers", "local", "simulated"]), default="auto",
                show_default=True,
                help="Source of the database and its proxy; auto: simulated at level sim, else containers or local."),
        proxy_option,
        _option("--seed", env="SEED", type=click.IntRange(min=0), default=None,
                help="Seed of every random choice; always printed.  [default: a new one]"),
        _option("--report", env="REPORT", type=click.Path(file_okay=False, path_type=Path),
                default=None, help="Folder of the report.  [default: reports/out/<run id>]"),
        _option("--keep", env="KEEP", type=click.Choice(["never", "on-failure", "always", "database"]),
                default="on-failure", show_default=True,
                help="For which runs to keep raw event files and worker logs in the report's folder; "
                     "database: always, and the server's data too (live, spark; local world)."),
        _option("--budget", env="BUDGET", type=click.FloatRange(min=0, min_open=True), default=None,
                help="Time limit of the whole command in seconds; runs not done by then are given up."),
        _option("--offline", env="OFFLINE", is_flag=True, help="Use no network: pull no image."),
        speech_options,
    ):  # fmt: skip
        command = option(command)
    return command
