"""Random scripts on two systems under test, compared command by command.

`python -m harness.conform.protocol.differential` compares the reference with the real Flink. The seed is printed
first; a difference is shrunk, printed with lines to paste, and saved for a replay. Invariant: the output says what
the scripts covered, so that a result without differences can be weighed.
"""

from __future__ import annotations

import shlex
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import click

from harness.conform.protocol.comparison import (
    ComparedCommand,
    DifferingScript,
    Mismatch,
    MismatchKind,
    Moment,
    alike,
    compare,
    report,
)
from harness.conform.protocol.coverage import Coverage
from harness.conform.protocol.driver import Command, Lines, SideBreach, Twins, command_line
from harness.conform.protocol.events import Blocked, Event, Snapshot, TaskFailed, Unblocked
from harness.conform.protocol.lockstep import ORDER_KINDS, Snapshots, open_command, run_lockstep
from harness.conform.protocol.program import Limits
from harness.conform.protocol.script import Life, Script, load_script, save_script
from harness.conform.protocol.script_drawing import ScriptSettings, draw_script
from harness.conform.protocol.shrinking import RUNS_MAX, shrink
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
    coverage, drawn = Coverage(), 0

    def draw_all() -> Iterator[Script]:
        nonlocal drawn
        for number in range(first, first + scripts):
            drawn += 1
            yield draw_script(seed, number, settings=settings)

    stream = ScriptStream(twins, coverage=coverage)
    began = monotonic_us()
    found = tuple(islice(stream.run(draw_all()), differences_max))
    seconds = (monotonic_us() - began) / 1e6
    if found:
        # Answers still in flight are not needed, and would disturb the shrinking.
        twins.kill()
        twins.start()
    return DifferentialResult(
        scripts=drawn,
        commands=coverage.counts["commands"],
        seconds=seconds,
        looked_closer=stream.looked_closer,
        coverage=coverage,
        differences=tuple(shrink(twins, one, runs_max=shrink_runs) for one in found),
    )


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
            for line in outcome.coverage.lines():
                click.echo(line)
            click.echo(
                f"{outcome.scripts} scripts, {outcome.commands} commands in {outcome.seconds:.1f} s: "
                f"{outcome.scripts_per_s:.0f} scripts/s; {outcome.looked_closer} run again in lockstep;  "
                f"{len(outcome.differences)} differences"
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


BATCH_COMMANDS = 1_500
"""About 150 kB of commands: the pipes can hold all batches in flight and their answers."""
BATCHES_FLYING = 2
"""While both systems work on the second batch, the first is compared."""
DOUBTS_MAX = 20
"""Doubtful scripts are collected up to this number, since a lockstep run needs idle systems."""
_CLOSE = ({"cmd": "close"}, command_line({"cmd": "close"}))


@dataclass(slots=True, kw_only=True)
class _Job:
    """One script in progress, at one of its lives. Mutable."""

    script: Script
    place: int = 0
    snapshots: Snapshots = field(default_factory=Snapshots)
    left: Lines = ()
    right: Lines = ()
    answers: tuple[Sequence[list[Event]], Sequence[list[Event]]] = ((), ())
    doubt: Mismatch | None = None
    """The mismatch that was seen; None if only the call numbers have become incomparable."""
    seen: Sequence[ComparedCommand] = ()

    @property
    def life(self) -> Life:
        return self.script.lives[self.place]


class ScriptStream:
    """The runner. Mutable: counts.

    A life that restores is sent in a later batch than the one with its snapshot. Invariant: its result is only "alike"
    or "run again in lockstep"; `run_lockstep` decides what is a difference.
    """

    def __init__(self, twins: Twins, *, coverage: Coverage) -> None:
        self._twins = twins
        self._coverage = coverage
        self._ready: deque[_Job] = deque()
        self._doubtful: deque[_Job] = deque()
        self.looked_closer = 0
        """Scripts that were run again in lockstep."""

    def run(self, scripts: Iterator[Script]) -> Iterator[DifferingScript]:
        """Run the scripts; yields every difference."""
        flying: deque[list[_Job]] = deque()
        while True:
            while len(flying) < BATCHES_FLYING and len(self._doubtful) < DOUBTS_MAX:
                if not (batch := self._batch(scripts)):
                    break
                self._send(batch)
                flying.append(batch)
            if flying:
                self._receive(flying)
            elif self._doubtful:
                yield from self._look_closer()
            else:
                return

    def _batch(self, scripts: Iterator[Script]) -> list[_Job]:
        batch: list[_Job] = []
        commands = 0
        while commands < BATCH_COMMANDS:
            if self._ready:
                job = self._ready.popleft()
            elif (script := next(scripts, None)) is not None:
                job = _Job(script=script)
            else:
                break
            batch.append(job)
            commands += len(job.life.commands) + 2
        return batch

    def _send(self, batch: Sequence[_Job]) -> None:
        left: list[tuple[Command, bytes]] = []
        right: list[tuple[Command, bytes]] = []
        for job in batch:
            restored = job.snapshots.restored(job.life)
            told = [(command, command_line(command)) for command in job.life.commands]
            ours, theirs = (open_command(job.life, state) for state in (restored.left, restored.right))
            job.left = [(ours, command_line(ours)), *told, _CLOSE]
            job.right = [(theirs, command_line(theirs)), *told, _CLOSE]
            left.extend(job.left)
            right.extend(job.right)
        self._twins.send(left, right)

    def _receive(self, flying: deque[list[_Job]]) -> None:
        """Compare the oldest batch; after a breach, every script in flight becomes doubtful."""
        batch = flying.popleft()
        owing = sum(len(job.left) for later in flying for job in later)
        try:
            left, right = self._twins.receive(sum(len(job.left) for job in batch), owing=owing)
        except SideBreach as broken:
            self._twins.start()
            kind = MismatchKind.LEFT_BREACH if broken.left else MismatchKind.RIGHT_BREACH
            for job in (*batch, *(job for later in flying for job in later)):
                job.doubt = Mismatch(kind=kind, detail=str(broken.breach))
                self._doubtful.append(job)
            flying.clear()
            return
        start = 0
        for job in batch:
            end = start + len(job.left)
            job.answers = (left[start:end], right[start:end])
            start = end
            self._judge(job)

    def _judge(self, job: _Job) -> None:
        if job.place == 0:
            self._coverage.begin_script()
        if not self._alike(job):
            self._doubtful.append(job)
            return
        if job.place + 1 == len(job.script.lives):
            return
        job.place += 1
        restored = job.snapshots.restored(job.life)
        if restored.free and restored.shuffled:
            self._coverage.counts["restores in an order of each side's own"] += 1
            self._doubtful.append(job)
        else:
            self._ready.append(job)

    def _alike(self, job: _Job) -> bool:
        """Whether both sides of a life are alike; if not, sets the job's doubt."""
        mode = job.life.config["mode"]
        blocked = failed = False
        for place, ((command, _), ours, theirs) in enumerate(zip(job.left, *job.answers, strict=True)):
            if not alike(ours, theirs):
                moment = Moment(blocked=blocked, failed=failed, mode=mode)
                job.doubt = compare(command, ours, theirs, moment=moment)
                if job.doubt is not None:
                    job.seen = _exchanges(job, place + 1)
                    return False
            if place == 0:
                self._coverage.begin_life(job.life, ours)
            else:
                self._coverage.note(command, ours)
            for event in ours:
                kind = type(event)
                if kind is Snapshot:
                    job.snapshots.take(ours, theirs, mode=mode)
                elif kind is TaskFailed:
                    failed = True
                elif kind is Blocked or kind is Unblocked:
                    blocked = kind is Blocked
        return True

    def _look_closer(self) -> Iterator[DifferingScript]:
        """Run the doubtful scripts in lockstep; nothing is in flight now.

        A breach in a batch may come from one of its scripts, or only from their combination; the latter is reported
        once.
        """
        unexplained: DifferingScript | None = None
        explained = False
        while self._doubtful:
            job = self._doubtful.popleft()
            self.looked_closer += 1
            found = run_lockstep(self._twins, job.script, first=job.place, snapshots=job.snapshots)
            if found is not None:
                explained = True
                yield found
            elif job.doubt is not None and not _is_free(job.doubt, job.seen):
                seen = Mismatch(kind=MismatchKind.ONCE, detail=f"{job.doubt.kind}: {job.doubt.detail}")
                once = DifferingScript(script=job.script, mismatch=seen, life=job.place, exchanges=job.seen)
                if job.seen:
                    yield once
                else:
                    unexplained = once
        if unexplained is not None and not explained:
            yield unexplained


def _is_free(doubt: Mismatch, seen: Sequence[ComparedCommand]) -> bool:
    """Whether the mismatch is a freedom that only lockstep can tell from a difference."""
    command = seen[-1].left_command if seen else {}
    if command.get("cmd") == "end_input":
        return doubt.kind is MismatchKind.NUMBERS
    if command.get("cmd") == "open":
        return command.get("restore") is not None and doubt.kind in ORDER_KINDS
    return doubt.kind is MismatchKind.FAILURE and command.get("cmd") == "fail" and command.get("hold") is True


def _exchanges(job: _Job, count: int) -> list[ComparedCommand]:
    rows = zip(job.left, job.right, *job.answers, strict=True)
    return [
        ComparedCommand(life=job.place, left_command=ours[0], right_command=theirs[0], left=left, right=right)
        for (ours, theirs, left, right), _ in zip(rows, range(count), strict=False)
    ]


if __name__ == "__main__":
    sys.exit(_main())
