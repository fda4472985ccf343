"""`zombie`: stop a worker, start its successor, and let the old worker go on beside it.

Answers to a process that loses its lease in a long pause, and (`how: on-time`) to one that is declared dead too early.
Evidence: the old attempt wrote events after the start of the new one and tried to commit. The evidence states the
outcome of that commit; V13 judges it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Annotated, Final, Literal

from harness.faults.model.fault import OutsideFault
from harness.faults.model.fields import Lasts, Subtask, Way
from harness.faults.real.evidence import Evidence, Seen, attempt_of
from harness.faults.real.fault_site import Site, Succession
from harness.faults.real.job_kill import last_words
from harness.faults.real.sites import AttemptSite, stop
from harness.faults.simulated.acts import Act, RunningAttempt, SimulatedRun, StoppedWorker
from harness.history.event import Snap
from harness.system.clock import Deadline, wait_until

_SUCCESSOR_S = 20.0
"""The longest extra pause of the old worker while its successor has not committed."""
_LAST_WORDS_S = 10.0
"""Time for the old worker to find out that it was replaced; after that it is ended with the run. With `how: on-time` it
has `_SUCCESSOR_S` more, because its successor may still have to start.
"""
_LOOK_MS: Final = 5
_ZOMBIE_SPEAKS_MS: Final = 3_000
"""Time for the resumed old worker to reach the fence check; a session that was ended may first wait for its name."""


class Zombie(OutsideFault):
    """Pauses and replaces the worker of `subtask`, then resumes it."""

    about = (
        "The worker of one subtask is stopped and replaced; it goes on once its successor has committed, or "
        "(`how: on-time`) when `for` is over, though its successor may not have taken over yet."
    )
    must_show = (
        "The old attempt wrote events after the new one's start and tried to commit; a correct sink refuses that "
        "once the new one has taken over."
    )
    stalls = True
    by = "process"
    triggers = (*OutsideFault.triggers, "phase")
    levels = ("sim", "live")
    abilities = ("superseding",)
    attempts_own = True
    can = ("failed", "start", "res")
    holds_locks = True

    do: Literal["zombie"]
    subtask: Subtask
    lasts: Lasts
    how: Annotated[Literal["after-commit", "on-time"], Way] = "after-commit"

    @contextmanager
    def inject(self, site: Site) -> Iterator[None]:
        """The old worker goes on when the block ends; `after-commit`: not before its successor has committed."""
        from harness.faults.real.suspension import awaited, suspended

        who = awaited(partial(site.workers.process, self.subtask))
        if who is None:
            yield
            return
        succession: Succession | None = None
        try:
            with suspended(who, site.note_fact):
                succession = site.workers.supersede(self.subtask)
                commits = succession.successor_commits
                yield
                if self.how == "after-commit":
                    wait_until(lambda: commits() > 0, deadline=Deadline(_SUCCESSOR_S))
                    site.note_fact(what="successor", commits=commits())
        finally:
            if succession is not None:
                last_s = _LAST_WORDS_S + (_SUCCESSOR_S if self.how == "on-time" else 0)
                wait_until(succession.old_one_is_over, deadline=Deadline(last_s))

    def evidence(self, seen: Seen) -> Evidence:
        stopped = seen.fact("stopped")
        if stopped is None or not seen.events:  # its evidence comes only after the block
            return {}
        who = attempt_of(stopped["pid"], stopped["started"], seen.events)
        words = None if who is None else last_words(seen.events, subtask=who[0], attempt=who[1])
        return {} if words is None or words["commit"] == "none" else words

    def act_in_attempt(self, attempt: AttemptSite) -> None:
        stop(self.id, attempt)

    def simulated(self, run: SimulatedRun) -> Act:
        return SimulatedZombie(run, self.subtask, is_on_time=self.how == "on-time")


class SimulatedZombie(StoppedWorker):
    """Pauses a simulated attempt, starts its successor, and resumes it afterwards. Mutable."""

    def __init__(self, run: SimulatedRun, subtask: int, *, is_on_time: bool) -> None:
        super().__init__(run, subtask)
        self._is_on_time = is_on_time
        self._resumed_ms = 0
        self._looked_at = 0
        """How many events have been searched for the successor's snapshot."""
        self._spoken = 0
        self._waited_ms = 0

    @property
    def settles_ms(self) -> int:
        """The extra pause until the successor's snapshot, plus the time for the old attempt to act.

        With `how: on-time`: as long as it lives, up to `_SUCCESSOR_S`, because its successor may still have to start.
        """
        if not self._is_on_time:
            return self._waited_ms + _ZOMBIE_SPEAKS_MS
        since_ms = self._run.hub.now_ms - self._resumed_ms
        is_alive = self._attempt is not None and self._attempt.actor.alive
        return since_ms + _LOOK_MS if is_alive and since_ms < _SUCCESSOR_S * 1000 else 0

    def stopped(self, attempt: RunningAttempt) -> None:
        """Another one takes over."""
        self._run.supersede(attempt.subtask)

    def ends(self) -> None:
        """Resumes the old attempt; `after-commit`: not before its successor has taken a snapshot."""
        hub = self._run.hub
        if self._attempt is None or not self._attempt.actor.paused:
            return
        is_early = not self._is_on_time and self._waited_ms < _SUCCESSOR_S * 1000
        if not hub.over and is_early and not self._is_succeeded():
            self._waited_ms += _LOOK_MS
            hub.at(hub.now_ms + _LOOK_MS, self.ends)
            return
        self._resumed_ms = hub.now_ms
        self._spoken = len(self._run.tape.events)
        super().ends()

    def _is_succeeded(self) -> bool:
        if self._subtask not in self._run.attempts:
            return True  # a subtask that a rescale has yet to begin
        events, newest = self._run.tape.events, self._run.attempts[self._subtask].number
        first, self._looked_at = self._looked_at, len(events)
        for event in events[first:]:
            if isinstance(event, Snap) and (event.s, event.a) == (self._subtask, newest):
                return True
        return False

    def evidence(self) -> Evidence:
        """The events that the old attempt wrote after it was resumed."""
        found = super().evidence()
        if not found or not self._spoken:
            return {}
        attempt = found["attempt"]
        events = self._run.tape.events[self._spoken :]
        said = sum((getattr(e, "s", None), getattr(e, "a", None)) == (self._subtask, attempt) for e in events)
        newest = self._run.attempts[self._subtask].number
        return {**found, "events_after": said, "next_attempt": newest} if said and newest > attempt else {}
