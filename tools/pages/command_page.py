"""Generates `docs/reference/command-line.md`, the page of the command line, from the commands themselves.

Answers to Maelstrom's generated help. `python -m tools.pages.command_page` rewrites it; a test fails while it
is out of date. Invariant: the page lists exactly the commands and options that click accepts.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from textwrap import fill

import click

from harness.cli.main import floodmark
from harness.system.errors import Exit
from harness.system.project_settings import OPTIONS

PAGE = Path(__file__).resolve().parents[2] / "docs" / "reference" / "command-line.md"

_WIDTH = 116
_PLACEHOLDERS: Mapping[str, str] = {"integer range": "N", "float range": "X", "directory": "DIR"}
"""Placeholders by click's type name, for options without a metavar."""
_EXITS: Mapping[Exit, str] = {
    Exit.HOLD: "everything holds; `demo`: the reference passed and the planted defect was convicted",
    Exit.VIOLATION: "a violation or a crossed threshold; with `--fail-on`: a pitfall, or a slower report; "
    "`diff`: a difference",
    Exit.INTERRUPTED: "interrupted: finished runs are reported; or the reader of standard output closed it (`head`)",
    Exit.INTERNAL: "an internal error, such as a harness that overlooks a "
    "[canary](../explanation/what-a-pass-means.md#who-tests-the-harness), or two judges that disagree: "
    "please report it. If one run of several broke Floodmark, the others are reported",
    Exit.USAGE: "bad usage, or a scenario or history with mistakes",
    Exit.NOTHING_RAN: "nothing ran",
    Exit.UNDECIDED: "unknown or vacuous: nothing was shown; or no run of a saved find shows what its file says",
    Exit.ENVIRONMENT: "the environment failed: no database, no proxy, no Java, no room on a disk",
}
_OPENING = """\
# The command line

Made by `python -m tools.pages.command_page`; do not edit.

The command is `floodmark`. Results go to standard output, progress to standard error. An option means the same in every
command. Its value comes from the first of these that gives one:

1. the command line;
2. the environment variable named beside it;
3. `[tool.floodmark]` in the nearest pyproject.toml, from the current folder upwards;
4. its default.

A [saved find](../how-to/shrink-and-replay.md#what-it-writes) runs as its file says: with `run`, `replay` and
`shrink` only the command line counts more than the file, and what differs is named in the first line.

The table in pyproject.toml may set

{settings}

and anything else in it is an error. Colour and moving progress appear on a terminal only; with `CI` or `TERM=dumb`
progress does not move. The first Ctrl-C heals the faults, ends all processes that were started, and reports what had
run; the second ends at once.

A shell completes commands, options, and names of scenarios, defects, faults and tags after one line in its start file:

| shell | file | line |
|---|---|---|
| bash | `~/.bashrc` | `eval "$(_FLOODMARK_COMPLETE=bash_source floodmark)"` |
| zsh | `~/.zshrc` | `eval "$(_FLOODMARK_COMPLETE=zsh_source floodmark)"` |
| fish | `~/.config/fish/config.fish` | `_FLOODMARK_COMPLETE=fish_source floodmark \\| source` |"""
_WORLDS = """\
## Variables without an option

| variable | meaning |
|---|---|
| `FLOODMARK_CACHE` | folder of unpacked servers, the proxy, prepared data and ledgers; default `~/.cache/floodmark` |
| `FLOODMARK_MYSQLD` | a `mysqld` or `mariadbd` to use instead of the one that would be found |
| `FLOODMARK_MYSQL_IMAGE` | the database's image in the containers world |
| `FLOODMARK_TOXIPROXY_IMAGE` | the proxy's image in the containers world |
| `FLOODMARK_PORTS` | a range such as `21000-21999`: take ports from there only |
| `DOCKER_HOST` | where the container engine listens |
| `JAVA_HOME` | which Java level `spark` uses |"""


def page_text() -> str:
    """The text of the page."""
    settings = fill(", ".join(f"`{name}`" for name in OPTIONS), width=_WIDTH)
    commands = _commands(floodmark, click.Context(floodmark, info_name="floodmark"))
    parts = [_OPENING.format(settings=settings), *commands, _exit_codes(), _WORLDS]
    return "\n\n".join(parts) + "\n"


def _commands(group: click.Group, context: click.Context) -> Iterator[str]:
    """A section for each command of `group`, and behind a group those of its commands."""
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is not None:
            inner = click.Context(command, info_name=name, parent=context)
            yield _section(command, inner)
            if isinstance(command, click.Group):
                yield from _commands(command, inner)


def _section(command: click.Command, context: click.Context) -> str:
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    about = inspect.cleandoc(command.help or "")
    rows = [_row(option) for option in command.params if isinstance(option, click.Option)]
    table = ["| option | environment | default | meaning |", "|---|---|---|---|", *rows] if rows else []
    return "\n\n".join(filter(None, [f"## `{context.command_path}`", f"`{usage}`", about, "\n".join(table)]))


def _row(option: click.Option) -> str:
    value = "" if option.is_flag else f" {_values(option)}"
    names = ", ".join(f"`{name}{value}`" for name in option.opts)
    variable = f"`{option.envvar}`" if option.envvar else ""
    default = "" if option.is_flag or not option.show_default else f"`{option.default}`"
    cells = (names, variable, default, option.help or "")
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def _values(option: click.Option) -> str:
    if isinstance(option.type, click.Choice):
        return "|".join(option.type.choices)
    return option.metavar or _PLACEHOLDERS[option.type.name]


def _exit_codes() -> str:
    rows = [f"| {int(code)} | {_EXITS[code]} |" for code in Exit]
    return "\n".join(["## Exit codes", "", "| code | meaning |", "|---|---|", *rows])


def main() -> None:
    """Write the page."""
    PAGE.write_text(page_text(), encoding="utf-8")
    sys.stdout.write(f"{PAGE}\n")


if __name__ == "__main__":
    main()
