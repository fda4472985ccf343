"""What happens to a simulated worker from outside: it is stopped and goes on, or is taken for dead meanwhile.

Answers to SIGSTOP and SIGCONT. Invariant: whoever is stopped goes on; a zombie finds its successor at work, and what
it then still did is counted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.history.event import Snap
from harness.sim.faults.act import Evidence

if TYPE_CHECKING:
    from harness.sim.attempt import Attempt
    from harness.sim.simulation import Simulation

__all__ = ["PauseWorker", "Zombie"]

_SUCCESSOR_MS: Final = 20_000
"""The longest that the old one is kept asleep beyond its time because the new one has not written."""
_LOOK_MS: Final = 5
_ZOMBIE_SPEAKS_MS: Final = 1_000
"""After it has gone on: by then it has met the fence."""


class PauseWorker:
    """The newest attempt of a subtask does nothing for a while. Mutable."""

    settles_ms = 0

    def __init__(self, run: Simulation, subtask: int) -> None:
        self._run = run
        self._subtask = subtask
        self._attempt: Attempt | None = None
        self._since_ms = 0
        self._paused_ms = 0

    def begins(self) -> None:
        """Stop it wherever it is; one that is not there cannot be stopped."""
        attempt = self._run.attempts[self._subtask]
        if not attempt.actor.alive or not attempt.number:
            return
        self._attempt, self._since_ms = attempt, self._run.hub.now_ms
        attempt.actor.pause()
        self.stopped(attempt)
        if attempt.actor.is_current:  # at a phase of its own
            while attempt.actor.paused:
                attempt.wait()

    def stopped(self, attempt: Attempt) -> None:
        """Nobody minds."""

    def ends(self) -> None:
        """It goes on."""
        if self._attempt is not None:
            self._paused_ms = self._run.hub.now_ms - self._since_ms
            self._attempt.actor.resume()
            self._attempt.actor.wake()

    def evidence(self) -> Evidence:
        """Whose attempt, and for how long."""
        if self._attempt is None:
            return {}
        paused_ms = self._paused_ms or self._run.hub.now_ms - self._since_ms
        return {"subtask": self._subtask, "attempt": self._attempt.number, "paused_ms": paused_ms}


class Zombie(PauseWorker):
    """It is taken for dead, its successor starts and writes, and then it goes on. Mutable."""

    settles_ms = _ZOMBIE_SPEAKS_MS

    def __init__(self, run: Simulation, subtask: int) -> None:
        super().__init__(run, subtask)
        self._spoken = 0
        self._waited_ms = 0

    def stopped(self, attempt: Attempt) -> None:
        """Another one takes over."""
        self._run.supersede(attempt)

    def ends(self) -> None:
        """It goes on, not knowing, but not before its successor has handed in a snapshot."""
        hub = self._run.hub
        if self._attempt is None or not self._attempt.actor.paused:
            return
        if not hub.over and self._waited_ms < _SUCCESSOR_MS and not self._is_succeeded():
            self._waited_ms += _LOOK_MS
            hub.at(hub.now_ms + _LOOK_MS, self.ends)
            return
        self._spoken = len(self._run.tape.events)
        super().ends()

    def _is_succeeded(self) -> bool:
        newest = self._run.attempts[self._subtask].number
        snaps = (event for event in reversed(self._run.tape.events) if isinstance(event, Snap))
        return any((event.s, event.a) == (self._subtask, newest) for event in snaps)

    def evidence(self) -> Evidence:
        """What it said after its successor had started."""
        found = super().evidence()
        if not found or not self._spoken:
            return {}
        attempt = found["attempt"]
        events = self._run.tape.events[self._spoken :]
        said = sum((getattr(e, "s", None), getattr(e, "a", None)) == (self._subtask, attempt) for e in events)
        newest = self._run.attempts[self._subtask].number
        return {**found, "events_after": said, "next_attempt": newest} if said and newest > attempt else {}
