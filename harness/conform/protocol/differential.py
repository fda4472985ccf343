"""Random scripts on two systems under test, compared command by command; a difference is shrunk.

Invariant: the result says what the scripts covered, so that one without differences can be weighed.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from harness.conform.protocol.comparison import (
    ComparedCommand,
    DifferingScript,
    Mismatch,
    MismatchKind,
    Moment,
    alike,
    compare,
)
from harness.conform.protocol.coverage import Coverage
from harness.conform.protocol.driver import Command, Lines, SideBreach, Twins, command_line
from harness.conform.protocol.events import Blocked, Event, Snapshot, TaskFailed, Unblocked
from harness.conform.protocol.lockstep import ORDER_KINDS, Snapshots, open_command, run_lockstep
from harness.conform.protocol.script import Life, Script
from harness.conform.protocol.script_drawing import ScriptSettings, draw_script
from harness.conform.protocol.shrinking import RUNS_MAX, shrink
from harness.system.clock import monotonic_us
from harness.system.errors import NothingRan


@dataclass(frozen=True, slots=True, kw_only=True)
class DifferentialResult:
    """The result of a run of many scripts."""

    scripts: int
    commands: int
    seconds: float
    looked_closer: int
    coverage: Coverage
    differences: tuple[DifferingScript, ...]


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
