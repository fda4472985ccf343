"""The run of a situation: its links and tables, who restarts whom, and when checkpoints are asked for.

Answers to Flink's job master with one region for the whole job, or, over an atomic sink, one for each subtask.
Invariant: a superseded attempt is killed, or is a zombie that was paused on purpose; nobody waits for either.
"""

from __future__ import annotations

from functools import partial
from typing import ClassVar, Final

from harness.levels.sim.hub import Actor
from harness.runs.plan import Crash
from harness.sim.attempt import Attempt, Job
from harness.sim.coordinated_run import CoordinatedRun
from harness.sim.disturbances import Disturbances
from harness.sim.effects import EffectTable
from harness.sim.lossy_link import LossyLink
from harness.sim.situation import Situation
from harness.sim.variant import Variant
from harness.sim.weather import Weather

__all__ = ["PATIENCE_MS", "SituatedRun"]

_LIMIT_MS: Final = 60_000
_ATTEMPTS_MAX: Final = 200
PATIENCE_MS: Final = 2_000
"""From the last fault, or from when nothing is due any more, to when the wait is given up."""
_ZOMBIES_LIVE_MS: Final = 400
"""After the job is done; then who is left over is killed."""
_QUIET_MS: Final = 3_000
"""Without any progress, nobody asks for another checkpoint: what is stuck is to be seen."""
_SLOWER_AFTER_MS: Final = 700
_SLOWER_MS: Final = 200


class SituatedRun(CoordinatedRun):
    """Mutable."""

    failing_is_stuck: ClassVar[bool] = True
    """No situation fails an honest operator for ever, or takes it near the limit."""

    def __init__(self, situation: Situation, *, seed: int, variant: Variant) -> None:
        crashes = [
            Crash(fault=crash.name, subtask=crash.subtask, phase=crash.phase, hit=crash.hit)
            for crash in situation.crashes
            if variant.arms_faults and crash.phase != "instant"
        ]
        points = situation.checkpoints
        super().__init__(
            subtasks=situation.stream.subtasks,
            recounts=points.style == "barriers",
            seed=seed,
            customers={},
            variant=variant,
            limit_ms=_LIMIT_MS,
            crashes=crashes,
            attempts_max=_ATTEMPTS_MAX,
        )
        self.round_trip_ms = points.round_trip_ms
        self.notify_lost_share, self.notify_again_share = points.notify_lost_share, points.notify_again_share
        self.situation = situation
        self.database.audits_outputs = points.tells_outputs
        self.links["sink"] = LossyLink(
            "sink", hub=self.hub, draw=self.draw, loss_share=points.reply_lost_share
        )
        self.weather = Weather(situation.lookups, self.draw)
        self.effects = variant.effects(EffectTable)(self.database) if situation.lookups.writes else None
        self.disturbances = Disturbances(self)
        self.watch = self.disturbances.reached
        self._quiet_since_ms = 0
        self._progress_seen = 0
        self._job: Job | None = None

    # --------------------------------------------------------------------------------------------- running

    def run(self, job: Job) -> None:
        """See `Simulation`."""
        self._job = job
        self.disturbances.plan()
        points = self.situation.checkpoints
        if points.style == "mail":
            self.hub.at(points.every, self._tick)
        elif not self.disturbances.await_phases:
            self.watch = None  # nobody asks for progress either
        super().run(job)

    @property
    def is_done(self) -> bool:
        """Whether every subtask has ended."""
        return len(self.finished) == self.situation.stream.subtasks

    def attempt_over(self, attempt: Attempt, actor: Actor) -> None:
        """Start the next one: of this subtask, or of all that go on."""
        subtask = attempt.subtask
        if self.attempts[subtask] is not attempt:
            return
        has_ended = self.situation.restarts_together and self.coordinator.has_ended(subtask)
        if has_ended or (actor.error is None and not actor.killed):
            self.finished[subtask] = None
            if self.is_done:
                self.hub.at(self.hub.now_ms + _ZOMBIES_LIVE_MS, self.disturbances.end_zombies)
        elif self._tries[subtask] >= _ATTEMPTS_MAX:
            self.fail(f"subtask {subtask} has failed {_ATTEMPTS_MAX} times: {actor.error or 'killed'}")
        else:
            self.restart(subtask)

    def restart(self, subtask: int) -> None:
        """The subtask's attempt is over, or taken for dead."""
        assert self._job is not None, "only a run that runs restarts anybody"
        who = self.coordinator.restart() if self.situation.restarts_together else [subtask]
        for one in who:
            old = self.attempts[one]
            at_ms = self.hub.now_ms + self.draw.between(1, self.situation.back_ms)
            self.begin(self._job, one, at_ms=at_ms)
            if not self.disturbances.is_zombie(old):
                old.actor.kill()

    def _give_up(self, why: str) -> None:
        """As a person does: not at the moment in which everything stands still, but after a good while."""
        self.hub.now_ms += PATIENCE_MS
        super()._give_up(why)

    # --------------------------------------------------------------------------------------- checkpoints

    def _tick(self) -> None:
        """Ask for a checkpoint, and for the next one later."""
        if self.is_done or self.hub.over:
            return
        now_ms = self.hub.now_ms
        if self.disturbances.progress != self._progress_seen:
            self._progress_seen, self._quiet_since_ms = self.disturbances.progress, now_ms
        quiet_ms = now_ms - self._quiet_since_ms
        if quiet_ms > _QUIET_MS:
            return
        every_ms = self.situation.checkpoints.every
        self.hub.at(now_ms + (_SLOWER_MS if quiet_ms > _SLOWER_AFTER_MS else every_ms), self._tick)
        if not self.situation.restarts_together:
            for attempt in self.going_on():
                attempt.task.trigger_next()
                attempt.actor.wake()
            return
        number = self.coordinator.trigger()
        if number is None:
            return
        self.hub.at(
            now_ms + self.situation.checkpoints.gives_up_ms, partial(self.coordinator.give_up, number)
        )
        for attempt in self.going_on():
            self.send(attempt, partial(_trigger, number=number))


def _trigger(attempt: Attempt, *, number: int) -> None:
    attempt.task.trigger(number)
