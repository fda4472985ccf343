"""Random scripts on two systems under test, compared command by command.

`python -m harness.conform.protocol.differential` compares the reference with the real Flink. The seed is printed
first; a difference is shrunk, printed with lines to paste, and saved for a replay. Invariant: the output says what
the scripts covered, so that a result without differences can be weighed.
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import click

from harness.conform.protocol.comparison import DifferingScript, report
from harness.conform.protocol.coverage import Coverage
from harness.conform.protocol.lockstep import run_lockstep
from harness.conform.protocol.program import Limits
from harness.conform.protocol.script import Script, load_script, save_script
from harness.conform.protocol.script_drawing import ScriptSettings, draw_script
from harness.conform.protocol.shrinking import RUNS_MAX, shrink
from harness.conform.protocol.stream import ScriptStream
from harness.conform.protocol.twins import Twins
from harness.system.choices import fresh_seed
from harness.system.clock import monotonic_us
from harness.system.errors import Exit, FloodmarkError, NothingRan


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferentialResult:
    """The result of a run of many scripts."""

    scripts: int
    commands: int
    seconds: float
    looked_closer: int
    coverage: Coverage
    differences: tuple[DifferingScript, ...]

    @property
    def scripts_per_s(self) -> float:
        """The rate, including the time for shrinking."""
        return self.scripts / self.seconds if self.seconds else 0.0


def compare_systems(
    twins: Twins,
    *,
    seed: int,
    scripts: int,
    settings: ScriptSettings,
    first: int = 0,
    differences_max: int = 1,
    shrink_runs: int = RUNS_MAX,
) -> DifferentialResult:
    """Run scripts `first`, `first + 1`, ... of a seed until all are done or `differences_max` are found."""
    coverage, run = Coverage(), _Counted(seed, first, scripts, settings)
    stream = ScriptStream(twins, coverage=coverage)
    began = monotonic_us()
    found = tuple(islice(stream.run(iter(run)), differences_max))
    seconds = (monotonic_us() - began) / 1e6
    if found:
        # Answers still in flight are not needed, and would disturb the shrinking.
        twins.kill()
        twins.start()
    return DifferentialResult(
        scripts=run.count,
        commands=coverage.counts["commands"],
        seconds=seconds,
        looked_closer=stream.looked_closer,
        coverage=coverage,
        differences=tuple(shrink(twins, one, runs_max=shrink_runs) for one in found),
    )


class _Counted:
    """Draws scripts and counts them. Mutable."""

    def __init__(self, seed: int, first: int, scripts: int, settings: ScriptSettings) -> None:
        self._numbers = range(first, first + scripts)
        self._seed = seed
        self._settings = settings
        self.count = 0

    def __iter__(self) -> Iterator[Script]:
        for number in self._numbers:
            self.count += 1
            yield draw_script(self._seed, number, settings=self._settings)


def common_settings(twins: Twins, *, mode: str, profile: str) -> ScriptSettings:
    """The settings that both systems support, limited to the wanted mode and profile."""
    claimed = [hello.abilities for hello in twins.hellos]
    abilities = frozenset(word for word in claimed[0] if word in claimed[1])
    wanted = ("ordered", "unordered") if mode == "both" else (mode,)
    modes = tuple(one for one in wanted if one in abilities)
    if not modes or (profile == "flink" and "flink-profile" not in abilities):
        names = " and ".join(hello.name for hello in twins.hellos)
        raise NothingRan(
            f"{names} do not both support mode {mode}, profile {profile}",
            fix=f"choose from what both support: {', '.join(sorted(abilities)) or 'nothing'}",
        )
    return ScriptSettings(modes=modes, profile=profile, abilities=abilities)


def replay(twins: Twins, path: Path) -> DifferingScript | None:
    """Run a saved script again; returns the difference if it still shows one."""
    return run_lockstep(twins, load_script(path))


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
            shown = replay(twins, again)
            found = (shown,) if shown else ()
        else:
            settings = common_settings(twins, mode=mode, profile=profile)
            outcome = compare_systems(
                twins, seed=seed, first=first, scripts=scripts, settings=settings, differences_max=differences
            )
            _sum_up(outcome)
            found = outcome.differences
    _print(found, save=None if again else save)
    sys.exit(Exit.VIOLATION if found else Exit.HOLD)


def _sum_up(outcome: DifferentialResult) -> None:
    for line in outcome.coverage.lines():
        click.echo(line)
    click.echo(
        f"{outcome.scripts} scripts, {outcome.commands} commands in {outcome.seconds:.1f} s: "
        f"{outcome.scripts_per_s:.0f} scripts/s; {outcome.looked_closer} run again in lockstep;  "
        f"{len(outcome.differences)} differences"
    )


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


if __name__ == "__main__":
    sys.exit(_main())
