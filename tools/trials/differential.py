"""Random scripts on two systems over the operator protocol: `python -m tools.trials.differential`.

It compares the reference with the real Flink, or any two others. The seed is printed first; a difference is shrunk,
printed with lines to paste, and saved for a replay. Invariant: the output says what the scripts covered.
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from harness.conform.protocol.comparison import DifferingScript, report
from harness.conform.protocol.differential import common_settings, compare_systems
from harness.conform.protocol.driver import Command, Twins
from harness.conform.protocol.lockstep import run_lockstep
from harness.conform.protocol.program import Limits
from harness.conform.protocol.script import FORMAT, CallName, Life, Script, script_json, value_key
from harness.system.choices import fresh_seed
from harness.system.errors import Exit, FloodmarkError, UsageError


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--left", required=True, help="The first system: a command line.")
@click.option("--right", required=True, help="The second system: a command line.")
@click.option("--scripts", type=click.IntRange(min=1), default=1_000, show_default=True, help="How many.")
@click.option("--seed", type=int, default=None, help="Of all choices; a fresh one if not given.")
@click.option("--first", type=click.IntRange(min=0), default=0, help="The number of the first script.")
@click.option(
    "--mode", type=click.Choice(["ordered", "unordered", "keyed", "both"]), default="both", show_default=True
)
@click.option("--profile", type=click.Choice(["flink", "strict"]), default="flink", show_default=True)
@click.option(
    "--differences", type=click.IntRange(min=1), default=1, show_default=True, help="Stop after so many."
)
@click.option(
    "--save", type=click.Path(path_type=Path, file_okay=False), help="Folder for shrunk differences."
)
@click.option("--replay", "again", type=click.Path(path_type=Path, exists=True), help="Run one saved script.")
def differential(
    left: str,
    right: str,
    scripts: int,
    seed: int | None,
    first: int,
    mode: str,
    profile: str,
    differences: int,
    save: Path | None,
    again: Path | None,
) -> None:
    """Compare two systems under test on random scripts. Exit code: 0 no difference, 1 a difference."""
    seed = fresh_seed() if seed is None else seed
    click.echo(f"seed {seed} (scripts {first} to {first + scripts - 1}, mode {mode}, profile {profile})")
    found: tuple[DifferingScript, ...] = ()
    with Twins(shlex.split(left), shlex.split(right), limits=Limits()) as twins:
        if again is not None:
            shown = run_lockstep(twins, load_script(again))
            found = (shown,) if shown else ()
        else:
            settings = common_settings(twins, mode=mode, profile=profile)
            outcome = compare_systems(
                twins, seed=seed, first=first, scripts=scripts, settings=settings, differences_max=differences
            )
            for line in outcome.coverage.lines():
                click.echo(line)
            click.echo(
                f"{outcome.scripts} scripts, {outcome.commands} commands in {outcome.seconds:.1f} s: "
                f"{outcome.scripts / (outcome.seconds or 1):.0f} scripts/s; "
                f"{outcome.looked_closer} run again in lockstep;  {len(outcome.differences)} differences"
            )
            found = outcome.differences
    _print(found, save=None if again else save)
    sys.exit(Exit.VIOLATION if found else Exit.HOLD)


def _print(differences: Sequence[DifferingScript], *, save: Path | None) -> None:
    for number, one in enumerate(differences, 1):
        click.echo(f"\n{report(one)}")
        if save is not None:
            save.mkdir(parents=True, exist_ok=True)
            path = save / f"difference-{number}.json"
            save_script(path, one.script)
            click.echo(f"saved as {path}")


def _main() -> int:
    """Run the command line; returns the documented exit code."""
    try:
        differential.main(standalone_mode=False)
    except FloodmarkError as error:
        click.echo(f"differential: {error}", err=True)
        return error.exit_code
    except click.ClickException as mistake:
        mistake.show()
        return Exit.USAGE
    except (KeyboardInterrupt, click.Abort):
        return Exit.INTERRUPTED
    return Exit.HOLD  # after `--help`; a comparison exits by itself


def save_script(path: Path, script: Script) -> None:
    """Write it for `load_script`."""
    path.write_text(json.dumps(script_json(script), indent=1) + "\n")


def load_script(path: Path) -> Script:
    """Read a saved script."""
    try:
        saved = json.loads(path.read_text())
        assert saved["format"] == FORMAT, f"its format is {saved['format']!r}, not {FORMAT!r}"
        return Script(name=saved["name"], lives=tuple(_life(life) for life in saved["lives"]))
    except (AssertionError, OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f"{path} is not a saved script: {error!r}", fix="name a file that the differential wrote"
        ) from error


def _life(saved: Mapping[str, Any]) -> Life:
    commands: Sequence[Command] = saved["commands"]
    return Life(
        config=saved["config"],
        now=saved["now"],
        restore=saved["restore"],
        commands=tuple(_named(command) for command in commands),
    )


def _named(command: Command) -> Command:
    call = command.get("call")
    if not isinstance(call, dict):
        return command
    name = CallName(value=value_key(call["value"]), attempt=call["attempt"], nth=call["nth"])
    return {**command, "call": name}


if __name__ == "__main__":
    sys.exit(_main())
