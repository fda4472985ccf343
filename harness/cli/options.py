"""The options that several commands share, with the same name, meaning and environment variable.

Precedence: command line, environment (`FLOODMARK_<OPTION>`), pyproject.toml, default.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from harness.cli.completion import mutant_names, tag_names
from harness.history.invariants import INVARIANTS, NOT_ON_A_HISTORY
from harness.system.errors import UsageError

if TYPE_CHECKING:
    from reports.past_report import PastReport

_Command = TypeVar("_Command", bound=Callable[..., Any])
CAMPAIGN = ("world", "proxy", "jobs", "report", "keep", "budget", "offline", "form", "quiet", "verbose", "no_color",
            "baseline", "opens")  # fmt: skip
"""The options that `run` and `job` pass on to `run_campaign`."""


def option(name: str, *names: str, **rest: Any) -> Callable[[_Command], _Command]:
    """An option of click that `FLOODMARK_<NAME>` sets too; `name` is its long form."""
    return click.option(name, *names, envvar=f"FLOODMARK_{name[2:].upper().replace('-', '_')}", **rest)


def budget_option(*, default: str | None, help: str) -> Callable[[_Command], _Command]:  # noqa: A002 - click's word
    """`--budget`, in seconds as a float, or None."""

    def seconds(ctx: click.Context, param: click.Parameter, text: str | None) -> float | None:
        if text is None:
            return None
        found = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s|m|h)?", text.strip())
        value = (
            float(found[1]) * {"ms": 0.001, None: 1, "s": 1, "m": 60, "h": 3600}[found[2]] if found else 0.0
        )
        if value <= 0:
            message = f"{text!r} is not a time greater than 0; write for example 10m, 90s or 600"
            raise click.BadParameter(message, ctx=ctx, param=param)
        return value

    return option("--budget", default=default, show_default=default is not None, metavar="10m|90s|SECONDS",
                  callback=seconds, help=help)  # fmt: skip


def refuse_no_world(level: str, world: str) -> None:
    """Raises UsageError if `level` starts processes but `world` has no real database."""
    if world == "simulated" and level != "sim":
        message = f"--world simulated has no database server, and --level {level} needs one"
        raise UsageError(message, fix="add --level sim, or leave --world out")


def _chosen(_ctx: click.Context, parameter: click.Parameter, given: Sequence[str]) -> tuple[str, ...]:
    asked = [name.strip() for words in given for name in words.split(",")]
    flag = parameter.opts[0]
    if problems := [problem for name in asked if (problem := _not_an_invariant(name, flag))]:
        raise UsageError("; ".join(problems), fix="`floodmark list invariants` lists them")
    return tuple(name for name in INVARIANTS if name in asked or not asked)


def _not_an_invariant(name: str, flag: str) -> str:
    if name in INVARIANTS:
        return ""
    if name in NOT_ON_A_HISTORY:
        return f"{flag} {name} is not checked on histories: {NOT_ON_A_HISTORY[name]}"
    close = get_close_matches(name.upper(), INVARIANTS, n=1)
    return f"{flag}: there is no {name!r}" + (f", did you mean {close[0]!r}?" if close else "")


invariant_option = option("--invariant", "invariants", multiple=True, metavar="V8,V10", callback=_chosen,
                          help="Check these invariants only; repeatable, or separated by commas.  "
                               "[default: all]")  # fmt: skip
only_option = option("--only", multiple=True, metavar="V8,V10", callback=_chosen,
                     help="Only violations of these invariants count; repeatable, or separated by commas.  "
                          "[default: all]")  # fmt: skip
expected_option = option("--expected", default=None, metavar="MODULE:FUNCTION|none",
                         help="What your function must return: `def expected(record, rows) -> list`; none: "
                              "values are not judged.  "
                              "[default: `expected` of its module, else what it returns alone, without "
                              "faults]")  # fmt: skip
mutant_option = option("--mutant", default=None, metavar="NAME|MODULE:ATTR", shell_complete=mutant_names,
                       help="A planted defect (`floodmark list mutants`), or a Variant or build_operator of "
                            "yours.")  # fmt: skip
runs_option = option("--runs", type=click.IntRange(min=1), default=1, show_default=True,
                     help="Runs of each scenario, with consecutive seeds.")  # fmt: skip
lanes_option = option("--jobs", type=click.IntRange(min=1), default=None,
                      help="Parallel runs, each in its own world (sim: process).  "
                           "[default: 1; sim: cores]")  # fmt: skip
fail_on_option = option("--fail-on", type=click.Choice(["pitfall"]), default=None,
                        help="pitfall: a run that shows a pitfall fails, with exit code 1.")  # fmt: skip
tag_option = option("--tag", "tags", multiple=True, metavar="TAG", shell_complete=tag_names,
                    help="Run only scenarios with this tag; repeatable: with all these tags.")  # fmt: skip
baseline_option = option("--baseline", default=None, metavar="RUN",
                         help="Tell what changed since an earlier report: its folder, its run.json or its run "
                              "id.")  # fmt: skip
open_option = option("--open", "opens", is_flag=True,
                     help="Show the page in the browser when it is written; not where CI is set.")  # fmt: skip
proxy_option = option("--proxy", type=click.Choice(["auto", "own", "toxiproxy"]), default="auto", show_default=True,
                      help="Proxy of the database; auto: Toxiproxy if installed, else (or if a fault needs MySQL "
                           "packets) our own.")  # fmt: skip


def on_option(about: str) -> Callable[[_Command], _Command]:
    """`--on`, with `about` as its help."""
    return option("--on", default=None, metavar="MASTER", help=about)


def refuse_on_at(level: str, on: str | None) -> None:
    """Raises UsageError if runs at `level` cannot be sent to the executors of `--on`."""
    if on is not None and level != "sim":
        message = f"--on {on} sends simulated runs to executors, and a run at level {level} needs a world of its own"
        raise UsageError(message, fix="add --level sim, or leave --on out")


sql_option = option("--sql", type=click.Choice(["model", "real"]), default=None,
                    help="Level sim: what answers your lookup's SQL: SQLite, or a database server.  "
                         "[default: real for an own client or --schema, else model]")  # fmt: skip


def own_files_options(command: _Command) -> _Command:
    """`--schema`, `--data`, `--records`: the files of the user's own tables and input; `--sql`: who answers."""
    file = click.Path(path_type=Path)
    for one in (
        option("--schema", "own_schema", type=file, default=None, metavar="FILE.sql",
                help="SQL that makes the tables of your lookup, in a real server."),
        option("--data", "own_data", type=file, multiple=True, metavar="FILE",
                help="Fills these tables: SQL, or CSV or JSON lines named after their table; repeatable."),
        option("--records", "own_records", type=file, default=None, metavar="FILE.jsonl",
                help="The input, a JSON object a record: key, and if you like id, ts, and what your lookup reads."),
    ):  # fmt: skip
        command = one(command)
    return sql_option(command)


def own_files_words(asked: Mapping[str, Any]) -> list[str]:
    """The same options as words of a command line."""
    data = [("--data", file) for file in asked["own_data"]]
    named = [
        ("--schema", asked["own_schema"]),
        *data,
        ("--records", asked["own_records"]),
        ("--sql", asked["sql"]),
    ]
    return [word for name, file in named if file is not None for word in (name, str(file))]


def jobs_option(about: str) -> Callable[[_Command], _Command]:
    """`--jobs`, with `about` as its help."""
    return option("--jobs", type=click.IntRange(min=1), default=1, show_default=True, help=about)


def speech_options(command: _Command) -> _Command:
    """`--format`, `--quiet`, `--verbose`, `--no-color`."""
    forms = click.Choice(["pretty", "json", "markdown", "github"])
    for one in (
        option("--format", "form", type=forms, default="pretty", show_default=True,
                help="Format of standard output."),
        option("--quiet", "-q", is_flag=True, help="Show no progress."),
        option("--verbose", "-v", is_flag=True,
                help="Print a line for each phase, on a terminal too, and all that the report says of a run."),
        option("--no-color", is_flag=True, callback=_no_color,
                help="No colour; NO_COLOR and TERM=dumb have the same effect."),
    ):  # fmt: skip
        command = one(command)
    return command


def _no_color(_ctx: click.Context, _parameter: click.Parameter, value: bool) -> bool:  # noqa: FBT001 - click's form
    """The option, or the environment variables of no-color.org."""
    return value or bool(os.environ.get("NO_COLOR")) or os.environ.get("TERM") == "dumb"


def earlier_report(named: str | None) -> PastReport | None:
    """The report of `--baseline`, read before anything runs. Raises UsageError or HistoryError."""
    if named is None:
        return None
    from harness.cli.reported_runs import REPORTS
    from reports.past_report import report_of

    place = Path(named)
    return report_of(REPORTS / named if not place.exists() and (REPORTS / named).exists() else place)


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


server_option = option(
    "--world", type=click.Choice(["auto", "containers", "local"]), default="auto", show_default=True,
    help="Source of the real server, if one is asked in virtual time; auto: containers, else local.")  # fmt: skip


def run_options(command: _Command) -> _Command:
    """The options that `run`, `demo` and `mutants` share."""
    for one in (
        option("--world", type=click.Choice(["auto", "containers", "local", "simulated"]), default="auto",
                show_default=True,
                help="Source of the database and its proxy; auto: simulated at level sim, else containers or local."),
        proxy_option,
        option("--seed", type=click.IntRange(min=0), default=None,
                help="Seed of every random choice; always printed.  [default: a new one]"),
        option("--report", type=click.Path(file_okay=False, path_type=Path),
                default=None, help="Folder of the report.  [default: reports/out/<run id>]"),
        option("--keep", type=click.Choice(["never", "on-failure", "always", "database"]),
                default="on-failure", show_default=True,
                help="For which runs to keep raw event files and worker logs in the report's folder; "
                     "database: always, and the server's data too (live, spark; local world)."),
        budget_option(default=None,
                help="Time limit of the whole command; runs not done by then are given up."),
        option("--offline", is_flag=True, help="Use no network: pull no image."),
        speech_options,
    ):  # fmt: skip
        command = one(command)
    return command
