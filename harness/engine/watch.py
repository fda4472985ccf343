"""The watch: follows a run's subtasks, injects the outside faults, and stops the run at its time limit.

Answers to Jepsen's nemesis and its time limit. Invariants: when the watch is over, every fault is healed, every attempt
has ended, and a `kill` is recorded for each attempt that died. A `kill` is recorded only if the attempt recorded
neither its end nor its failure, and its process (by pid and start time) does not exist any more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from signal import Signals

from msgspec import UNSET

from harness.engine.level import Execution
from harness.engine.outside_faults import OutsideFaults
from harness.engine.run import RunInWorld
from harness.engine.schedule import UNTIL_EFFECTIVE_US
from harness.history.event import OUTSIDE, GiveUp, Kill
from harness.history.follower import AttemptView, Follower, Progress
from harness.history.notes import FaultNote, KilledFromOutside, Line, ProcessReaped
from harness.history.recorder import Recorder
from harness.scenario.plan import Runner
from harness.system.clock import Deadline, monotonic_us, pause
from harness.system.process_identity import exists


class AttemptReaper:
    """Records a `kill`, with its cause if it is known, for each attempt whose process is gone. Call `look` often.

    Mutable: `codes` holds the exit codes of the processes that the level reaped, by pid; `stopped` the pids of the
    processes that the harness killed to end the run.
    """

    def __init__(self, recorder: Recorder) -> None:
        self.codes: dict[int, int] = {}
        self.stopped: set[int] = set()
        self._recorder = recorder
        self._dead: set[tuple[int, int]] = set()
        self._gone: set[tuple[int, int]] = set()
        """Those whose process was gone at an earlier look."""

    def look(self, progress: Progress, *, again: Callable[[], Progress]) -> list[AttemptView]:
        """Records the attempts that died since the last call, and returns them.

        `again` reads the journals once more: a process may write whom it dies for after `progress` was read, and be
        gone before it is looked for. If the exit code is not known, the attempt is recorded at the next look: the level
        may not have heard of it yet.
        """
        alive = ((name, view) for name, view in progress.attempts.items() if name not in self._dead)
        lost = {  # an unreaped (zombie) process is not gone
            name: view.process.pid
            for name, view in alive
            if not view.over and view.process is not None and not exists(view.process)
        }
        names = [name for name, pid in lost.items() if pid in self.codes or name in self._gone]
        self._gone.update(lost)
        if not names:
            return []
        newest = again().attempts
        gone = [newest[name] for name in names if not newest[name].over]
        # One process may have acted for several attempts, and ends them all with itself.
        died_for = {view.process: view.dies_for for view in gone if view.dies_for is not None}
        for view in gone:
            self._dead.add((view.subtask, view.attempt))
            by = died_for.get(view.process) or self._cause(view)
            self._recorder.event(Kill, s=view.subtask, a=view.attempt, by=UNSET if by is None else by)
        return gone

    def _cause(self, view: AttemptView) -> str | None:
        """Who killed it. A signal from outside is noted as a threat, unless the harness sent it to end the run."""
        assert view.process is not None, "only an attempt whose process is known can be gone"
        if view.dies_for is not None:
            return view.dies_for
        if view.process.pid in self.stopped:
            return OUTSIDE
        code = self.codes.get(view.process.pid, 0)
        if code >= 0 or -code in _OWN_SIGNALS:
            return None
        killed = KilledFromOutside(s=view.subtask, a=view.attempt, signal=Signals(-code).name)
        self._recorder.write(killed)
        return OUTSIDE


_OWN_SIGNALS = frozenset(
    {
        Signals.SIGSEGV,
        Signals.SIGBUS,
        Signals.SIGFPE,
        Signals.SIGILL,
        Signals.SIGABRT,
        Signals.SIGSYS,
        Signals.SIGTRAP,
    }
)
"""Signals by which a process ends through a mistake of its own code."""


def threats_of(lines: Iterable[Line]) -> Iterator[str]:
    """A sentence for each attempt that a signal from outside of the run has killed."""
    for line in lines:
        if isinstance(line, KilledFromOutside):
            yield (
                f"attempt {line.a} of subtask {line.s} was killed by {line.signal} from outside of the run; "
                "no fault planned that, and it is judged as a kill"
            )


_POLL_S = 0.01
_TELL_EVERY = 20
"""Polls between two progress messages."""
_NO_LIMIT_S = float("inf")
_OF_RUNNER_S: Mapping[Runner, float] = {"continuous": 0.0, "micro-batch": 240.0, "stateful": 240.0}
"""What a runner needs beyond a scenario's budget: a batch has costs of its own, and a driver that died starts anew."""
_QUIET_MS = 10_000
"""The time limit of a query; a working operator records lines more often than this."""
_AFTER_TIMEOUT_MS = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """The watch over one run."""

    run: RunInWorld
    recorder: Recorder
    start: Callable[[], Execution] | None = None
    """Starts a run that rescales; None: it does not."""

    def over(self) -> None:
        """Starts the subtasks, follows them and injects the faults, until all have ended or the budget is over."""
        run, site, scenario = self.run, self.run.site, self.run.acts
        follower, reaper = Follower(run.raw), AttemptReaper(self.recorder)
        of_scenario_s = scenario.budget / 1000 + _OF_RUNNER_S[run.plan.runner]
        budget_s = min(of_scenario_s, _NO_LIMIT_S if site.limit_s is None else site.limit_s)
        with (
            _stopped(
                self.start() if self.start else run.start(scenario.workload.subtasks), reaper
            ) as execution,
            self._schedule(execution) as schedule,
        ):
            deadline, turn = Deadline(budget_s), count()
            while True:
                progress = follower.poll()
                state = execution.poll()  # may start the successors of those whose end is recorded by now
                if state.ends:
                    progress = follower.poll()  # now all is there that the dead have written
                for end in state.ends:
                    reaper.codes[end.pid] = end.code
                    self.recorder.write(ProcessReaped(s=end.subtask, pid=end.pid, code=end.code))
                self._tell_dead(reaper.look(progress, again=follower.poll))
                why = state.error or ("interrupted" if site.stop.is_set() else None)
                if why is None and deadline.passed:
                    why = f"the budget of {deadline.seconds:.3g} s is over"
                if why is not None or not state.running:
                    break
                schedule.step(progress, now_us=monotonic_us())
                if next(turn) % _TELL_EVERY == 0:
                    run.world.look()
                    self._tell(progress, schedule, elapsed_s=budget_s - deadline.left_s)
                pause(_POLL_S)
        for _ in range(2):  # the first look may leave some to the second
            self._tell_dead(reaper.look(follower.poll(), again=follower.poll))
        over_by_itself = state.error is None and not site.stop.is_set()
        if (
            why is not None
            and over_by_itself
            and hangs(progress, timeout_ms=scenario.operator.timeout, now_us=monotonic_us())
        ):
            self.recorder.event(GiveUp, why=why)
        run.error, run.interrupted = why, why is not None and site.stop.is_set()

    def _schedule(self, execution: Execution) -> OutsideFaults:
        run = self.run
        return OutsideFaults(
            faults=run.acts.faults,
            seed=run.order.seed,
            control=run.world.proxy,
            server=run.world.server.of_run(run.plan.sink.database),
            workers=execution,
            note=self._note,
            tell=lambda text: run.site.observer.phase("fault", text),
            subtasks=run.acts.workload.subtasks,
            prolongs_us=0 if run.plan.runner == "continuous" else UNTIL_EFFECTIVE_US,
        )

    def _note(self, note: FaultNote) -> int:
        self.recorder.write(note)
        return monotonic_us()

    def _tell_dead(self, views: Sequence[AttemptView]) -> None:
        for view in views:
            text = f"attempt {view.attempt} of subtask {view.subtask} is dead: its process is gone"
            self.run.site.observer.phase("fault", text)

    def _tell(self, progress: Progress, schedule: OutsideFaults, *, elapsed_s: float) -> None:
        workload = self.run.acts.workload
        self.run.site.observer.standing(
            in_flight=progress.in_flight,
            lag=max(0, workload.records * workload.subtasks - progress.emitted),
            epoch=progress.epoch,
            faults=schedule.active(),
            elapsed_s=elapsed_s,
        )


def hangs(progress: Progress, *, timeout_ms: int, now_us: int) -> bool:
    """Whether the run has recorded nothing for so long that it counts as stuck.

    A run that still records lines when its budget is over only had too small a budget.
    """
    quiet_ms = max(_QUIET_MS, timeout_ms + _AFTER_TIMEOUT_MS)
    return progress.last_us is not None and now_us - progress.last_us >= quiet_ms * 1000


@contextmanager
def _stopped(execution: Execution, reaper: AttemptReaper) -> Iterator[Execution]:
    """Stops it at the end; the reaper learns which processes had to be killed."""
    try:
        yield execution
    finally:
        reaper.stopped.update(execution.stop())
