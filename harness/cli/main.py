"""The command `floodmark`: loads the subcommand and turns its result or exception into a documented exit code.

Documented in `docs/reference/command-line.md`. Invariants: a command's module is imported only when that command
runs, so `--help` is fast; every exit code is documented; an unexpected exception is reported as an internal error.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import TextIO

import click

from harness.system.errors import Exit, FloodmarkError, ReaderGone, UsageError
from harness.system.own_packages import import_ours
from harness.system.project_settings import project_settings

COMPLETE = "_FLOODMARK_COMPLETE"
"""The variable by which a shell's completion asks for names; click looks for it."""

_COMMANDS: Mapping[str, str] = {
    "demo": "A first run: the reference passes, a planted defect is detected.",
    "run": "Run scenarios, check the histories and write a report.",
    "job": "Put your own job under fire: Spark, Bytewax, asyncio or any other program.",
    "shrink": "Make a violation small: of a run at any level, a saved find or a scenario.",
    "replay": "Repeat what a report tells, from the report alone.",
    "check": "Check history files, from any source.",
    "certify": "Run a profile of scenarios and write a certificate: a page, a file to verify, a badge.",
    "verify": "Judge a certificate again from the files beside it.",
    "trend": "Compare reports over time: what is slower, what is flaky.",
    "conform": "Judge an operator in any language over the operator protocol; write a certificate.",
    "diff": "Name the first event at which two runs, or two systems, part.",
    "explore": "Draw and change scenarios until one shows a violation, and shrink it.",
    "init": "Begin a project for a lookup or a job: files that run, a test, CI files.",
    "mutants": "Run the planted defects, or your own, against every invariant.",
    "list": "List the scenarios, faults, invariants, suts, mutants, or which faults were effective where.",
    "schema": "Print the JSON Schema of scenario files or job files, for editors.",
    "doctor": "Show what works on this machine, with a fix for what does not.",
    "setup": "Get the missing parts of a world, into a cache.",
    "clean": "Remove what killed runs left behind.",
    "proxy": "Run Floodmark's own proxy, which has Toxiproxy's HTTP API.",
    "sut": "Serve an operator over the operator protocol, for other harnesses.",
    "bench": "Measure the performance table, as ratios within one run.",
    "experiments": "Compare the time of lookups one by one, on threads, ordered and unordered.",
}
"""One sentence for each command; the command `x` is `x` in the module `harness.cli.x`."""

_OF_A_CHECKOUT: Mapping[str, str] = {"bench": "tools.bench.command", "experiments": "tools.bench.experiments"}
"""Commands that need a checkout of the repository: their modules are not in the wheel."""


class _Commands(click.Group):
    """A click group that imports a command's module only when the command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        del ctx
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        del ctx
        if cmd_name not in _COMMANDS:
            return None
        module = _module_of(cmd_name)
        command: click.Command = getattr(module, cmd_name if cmd_name != "list" else "list_")
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Adds the nearest command to click's message on one that does not exist."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            from difflib import get_close_matches  # late, so that `--help` is fast

            close = get_close_matches(args[0], _COMMANDS, n=1)
            hint = f" Did you mean {close[0]!r}?" if close else ""
            raise click.UsageError(f"{error.message}{hint}", ctx) from error

    def invoke(self, ctx: click.Context) -> object:
        """Click would end with code 1 on a closed pipe, which would mean a violation."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError as gone:
            raise ReaderGone("interrupted: the reader of standard output has closed it") from gone

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Lists the commands without importing them."""
        del ctx
        with formatter.section("Commands"):
            formatter.write_dl(list(_COMMANDS.items()))


def _module_of(name: str) -> ModuleType:
    """The module of a command; raises UsageError if it needs a checkout and there is none."""
    place = _OF_A_CHECKOUT.get(name, f"harness.cli.{name}")
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        if name in _OF_A_CHECKOUT and error.name is not None and place.startswith(error.name):
            raise UsageError(
                f"`floodmark {name}` is not in the installed package: its modules are in `tools/` of the repository",
                fix="clone the repository, run `make install`, and call the command there",
            ) from error
        raise


@click.group(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="floodmark", message="floodmark %(version)s")
def floodmark() -> None:
    """Test an asynchronous stream operator under injected faults; show a counterexample if an invariant is violated.

    Exit codes: 0 all hold, 1 a violation, 2 interrupted, 3 internal error, 4 bad usage, scenario or history,
    5 nothing ran, 10 unknown or vacuous, 11 the environment failed.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line and returns the process's exit code."""
    try:
        import_ours()
        settings = project_settings(_COMMANDS)
        answer = floodmark.main(
            args=list(arguments) if arguments is not None else None,
            prog_name="floodmark",
            complete_var=COMPLETE,
            standalone_mode=False,
            default_map=settings,
        )
    except FloodmarkError as error:
        try:
            sys.stdout.flush()  # now, so that a write error does not recur at exit and change the exit code
        except OSError:
            _mute(sys.stdout)
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
    except (Exception, SystemExit) as error:  # noqa: BLE001 - an internal error needs its exit code too
        if isinstance(error, SystemExit) and COMPLETE in os.environ:
            return int(error.code or 0)  # click has answered the shell
        import traceback

        traceback.print_exc()
        _say(f"floodmark: internal error ({type(error).__name__}); please report it with the lines above")
        return Exit.INTERNAL
    return answer if isinstance(answer, int) else Exit.HOLD


def _say(text: str) -> None:
    try:
        click.echo(text, err=True)
    except BrokenPipeError:
        _mute(sys.stderr)


def _mute(stream: TextIO) -> None:
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)
