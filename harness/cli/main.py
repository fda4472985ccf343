"""The command `floodmark`: finds the subcommand, and turns every ending into its documented exit code.

Answers to `docs/reference/command-line.md`. Invariant: nothing heavy is imported before a command runs, so `--help`
answers at once; no ending leaves with an undocumented exit code, and a defect of ours says that it is one.
"""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, TextIO

import click

from harness.cli.settings import project_settings
from harness.errors import Exit, FloodmarkError, ReaderGone, UsageError

__all__ = ["floodmark", "main"]

_COMMANDS: Mapping[str, str] = {
    "demo": "The newcomer's first run: the reference passes, a planted defect is convicted.",
    "run": "Run scenarios, judge them, write a report.",
    "check": "Judge histories, from anywhere.",
    "mutants": "The kill matrix: every planted defect against every invariant.",
    "list": "What there is: scenarios, faults, invariants, suts, mutants.",
    "doctor": "What works here and what does not, each with its fix.",
    "setup": "Get what a world lacks, into a cache.",
    "clean": "Remove what a killed run left behind; ours only.",
    "proxy": "Our own proxy with Toxiproxy's HTTP API, as a server of its own.",
    "sut": "Speak the operator protocol, so that any harness can drive an operator.",
    "bench": "The performance table, as ratios within one run.",
    "experiments": "Lookups one by one, on threads, ordered and unordered: what each takes, over many draws.",
}
"""Name -> one sentence; each is the command of that name in the module of that name."""

_OF_A_CHECKOUT: Mapping[str, str] = {"bench": "tools.bench.command", "experiments": "tools.bench.experiments"}
"""Commands that measure this repository: their modules are not in the wheel."""


class _Commands(click.Group):
    """Imports a command's module when it is called for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order in which a newcomer meets them."""
        del ctx
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command, or None with click's own suggestion."""
        del ctx
        if cmd_name not in _COMMANDS:
            return None
        module = _module_of(cmd_name)
        command: click.Command = getattr(module, cmd_name if cmd_name != "list" else "list_")
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Click itself would answer a closed pipe with 1, which says that there was a violation."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as gone:
            raise ReaderGone("interrupted: nobody reads standard output any more") from gone

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Without importing any of them."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


def _module_of(name: str) -> ModuleType:
    """The module of a command; raises UsageError for one of a checkout where there is none."""
    place = _OF_A_CHECKOUT.get(name, f"harness.cli.{name}")
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        if name in _OF_A_CHECKOUT and error.name is not None and place.startswith(error.name):
            raise UsageError(
                f"`floodmark {name}` is not in the installed package: its modules lie in `tools/` of the repository",
                fix="clone the repository, `make install`, and call it there",
            ) from error
        raise


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="floodmark", message="floodmark %(version)s")
def floodmark() -> None:
    """Prove, or refute with a counterexample, that an asynchronous stream operator keeps its promises.

    Exit codes: 0 all hold, 1 a violation, 2 interrupted, 3 internal error, 4 bad usage, scenario or history,
    5 nothing ran, 10 unknown or vacuous, 11 the environment failed.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; what it answers is the process's exit code."""
    try:
        settings = project_settings(_COMMANDS)
        answer = floodmark.main(
            args=list(arguments) if arguments is not None else None,
            prog_name="floodmark",
            standalone_mode=False,
            default_map=settings,
        )
    except FloodmarkError as error:
        _drop_what_cannot_be_said()
        _say(f"floodmark: {error}")
        return error.exit_code
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return Exit.USAGE
    except click.ClickException as error:
        error.show(sys.stderr)
        return Exit.USAGE
    except (KeyboardInterrupt, click.Abort):
        _say("floodmark: interrupted")
        return Exit.INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the last door: a defect of ours must have its exit code
        traceback.print_exc()
        _say(f"floodmark: internal error ({type(error).__name__}); please report it with the lines above")
        return Exit.INTERNAL
    return answer if isinstance(answer, int) else Exit.HOLD


def _say(text: str) -> None:
    try:
        click.echo(text, err=True)
    except BrokenPipeError:
        _mute(sys.stderr)


def _drop_what_cannot_be_said() -> None:
    """What a closed pipe or a full disk refused must not fail again when the process ends, with a code of its own."""
    try:
        sys.stdout.flush()
    except OSError:
        _mute(sys.stdout)


def _mute(stream: TextIO) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
