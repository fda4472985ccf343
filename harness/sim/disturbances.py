"""What is done to a situation's run: disturbances, kills at an instant, and zombies.

Answers to Jepsen's nemesis. Invariant: each begins once, ends, and is in the history with what it did; one that
stops the operator's own process says so (`stalls`).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from harness.faults.reset import SimulatedReset
from harness.faults.simulated.holding import latency
from harness.faults.simulated.shut_port import ShutPort
from harness.faults.simulated.swallowing import Swallowing
from harness.history.event import FaultEvent
from harness.runs.plan import Crash
from harness.sim.situation import Disturbance, Zombie

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.sim.attempt import Attempt
    from harness.sim.link import LinkFault
    from harness.sim.situated_run import SituatedRun

__all__ = ["Disturbances"]

_WORK = frozenset({"accept", "call", "result", "emit", "wm"})
_TAKEN_FOR_DEAD_MS = 20
"""After an attempt stopped: that is how long it may not be heard of."""


class Disturbances:
    """Told of each phase that an attempt reaches. Mutable: counts calls, and what else is progress."""

    def __init__(self, run: SituatedRun) -> None:
        self._run = run
        self._calls = 0
        self.progress = 0
        """Grows while anything but checkpoints happens."""
        self._waiting: list[Disturbance] = []
        self._unborn: list[Zombie] = []
        self._hits: dict[str, int] = {}
        self._zombies: dict[Attempt, None] = {}
        self._stalled: dict[str, int] = {}
        self._acts: dict[str, list[tuple[str, LinkFault]]] = {}

    def plan(self) -> None:
        """Before anything runs."""
        situation, hub = self._run.situation, self._run.hub
        if not self._run.variant.arms_faults:
            return
        self._waiting = list(situation.disturbances)
        self._unborn = [zombie for zombie in situation.zombies if zombie.phase != "instant"]
        for crash in situation.crashes:
            if crash.phase == "instant":
                planned = Crash(fault=crash.name, subtask=crash.subtask, phase=crash.phase, hit=crash.hit)
                hub.at(crash.hit, partial(self._kill, planned))
        for zombie in situation.zombies:
            if zombie.phase == "instant":
                hub.at(zombie.hit, partial(self._stop_somewhere, zombie))

    @property
    def await_phases(self) -> bool:
        """Whether any of it happens where an attempt is, and not at an instant."""
        return bool(self._waiting or self._unborn)

    def _kill(self, crash: Crash) -> None:
        attempt = self._run.attempts[crash.subtask]
        if attempt.actor.alive and attempt.number:
            self._run.dies(attempt, crash)

    def reached(self, subtask: int, phase: str) -> None:
        """An attempt of `subtask` is at `phase`."""
        if phase in _WORK:
            self.progress += 1
        if phase == "call" and self._waiting:
            self._calls += 1
            due = [one for one in self._waiting if one.at_call <= self._calls]
            self._waiting = [one for one in self._waiting if one.at_call > self._calls]
            for disturbance in due:  # others may be here too before the last has begun: a stall lets them
                self._begin(disturbance, subtask)
        for zombie in self._unborn:
            if zombie.phase == phase and zombie.subtask == subtask:
                self._be_zombies(subtask, phase)
                break

    # ---------------------------------------------------------------------------------------- disturbances

    def _begin(self, disturbance: Disturbance, subtask: int) -> None:
        run = self._run
        stalls = disturbance.kind == "stall"
        self._fault(disturbance.name, stalls=stalls)
        run.hub.at(run.hub.now_ms + disturbance.lasts_ms, partial(self._end, disturbance))
        match disturbance.kind:
            case "errors" | "lock":
                run.weather.begins(disturbance, now_ms=run.hub.now_ms)
            case "clock-jump":
                run.hub.wall_offset_ms += disturbance.amount_ms
            case "stall":
                attempt = run.attempts[subtask]
                if attempt.actor.is_current:
                    self._stalled[disturbance.name] = disturbance.lasts_ms
                    attempt.sleep_until(run.hub.now_ms + disturbance.lasts_ms)
            case "latency" | "blackhole" | "down" | "reset":
                # Not at this very place: a cut connection would be told to a loop that is in the middle of a call.
                run.hub.at(run.hub.now_ms, partial(self._act, disturbance))

    def _act(self, disturbance: Disturbance) -> None:
        acts = self._acts[disturbance.name] = [(link, _link_fault(disturbance)) for link in disturbance.links]
        for link, fault in acts:
            self._run.links[link].begin(fault)

    def _end(self, disturbance: Disturbance) -> None:
        self._fault(disturbance.name, evidence=self._evidence(disturbance))

    def _evidence(self, disturbance: Disturbance) -> dict[str, Any]:
        match disturbance.kind:
            case "errors" | "lock":
                met = self._run.weather.ends(disturbance)
                return {"calls": met} if met else {}
            case "clock-jump":  # somebody sets it right again: another jump, at no particular moment
                self._run.hub.wall_offset_ms -= disturbance.amount_ms
                return {"jumped_ms": disturbance.amount_ms}
            case "stall":
                stalled_ms = self._stalled.get(disturbance.name)
                return {"stalled_ms": stalled_ms} if stalled_ms else {}
        found: dict[str, Any] = {}
        for link, fault in self._acts.pop(disturbance.name):
            self._run.links[link].heal(fault)
            if evidence := fault.evidence():
                found[link] = evidence
        return found

    def _fault(self, name: str, *, stalls: bool = False, evidence: dict[str, Any] | None = None) -> None:
        tape = self._run.tape
        if evidence is not None:
            tape.add(FaultEvent(n=tape.n, t=tape.t, f=name, phase="end", evidence=evidence))
        elif stalls:
            tape.add(FaultEvent(n=tape.n, t=tape.t, f=name, phase="begin", stalls=True))
        else:
            tape.add(FaultEvent(n=tape.n, t=tape.t, f=name, phase="begin"))

    # -------------------------------------------------------------------------------------------- zombies

    def is_zombie(self, attempt: Attempt) -> bool:
        """Whether it was stopped, and may go on after its successor has begun."""
        return attempt in self._zombies

    def _be_zombies(self, subtask: int, phase: str) -> None:
        attempt = self._run.attempts[subtask]
        if not attempt.actor.is_current:
            return
        for zombie in [one for one in self._unborn if (one.subtask, one.phase) == (subtask, phase)]:
            self._hits[zombie.name] = self._hits.get(zombie.name, 0) + 1
            if self._hits[zombie.name] == zombie.hit:
                self._unborn.remove(zombie)
                self._stop(attempt, zombie)

    def _stop_somewhere(self, zombie: Zombie) -> None:
        """Wherever it is, in the middle of a commit, say."""
        attempt = self._run.attempts[zombie.subtask]
        if attempt.actor.alive and attempt.number:
            self._pause(attempt, zombie)

    def _stop(self, attempt: Attempt, zombie: Zombie) -> None:
        """Nothing of it runs for a while; by then it has a successor, or was quick enough."""
        self._pause(attempt, zombie)
        while attempt.actor.paused:
            attempt.wait()

    def _pause(self, attempt: Attempt, zombie: Zombie) -> None:
        hub = self._run.hub
        self._fault(zombie.name, stalls=True)
        self._zombies[attempt] = None
        hub.at(hub.now_ms + _TAKEN_FOR_DEAD_MS, partial(self._give_up, attempt))
        hub.at(hub.now_ms + zombie.paused_ms, partial(self._wake, attempt, zombie))
        attempt.actor.pause()

    def _give_up(self, attempt: Attempt) -> None:
        """It is not heard of: others take over, unless they have, or it goes on already."""
        if self._run.attempts[attempt.subtask] is not attempt:
            return
        if attempt.actor.paused:
            self._run.restart(attempt.subtask)
        else:
            del self._zombies[attempt]

    def _wake(self, attempt: Attempt, zombie: Zombie) -> None:
        evidence = {
            "paused_ms": zombie.paused_ms,
            "superseded": self._run.attempts[zombie.subtask] is not attempt,
        }
        self._fault(zombie.name, evidence=evidence)
        if zombie.then_kill_ms is not None:
            crash = Crash(fault="crash-of-successor", subtask=zombie.subtask, phase="instant", hit=1)
            hub = self._run.hub
            hub.at(hub.now_ms + zombie.then_kill_ms, partial(self._kill, crash))
        attempt.actor.resume()
        attempt.actor.wake()

    def end_zombies(self) -> None:
        """The job is done."""
        for attempt in self._zombies:
            attempt.actor.kill()


def _link_fault(disturbance: Disturbance) -> LinkFault:
    make: dict[str, Callable[[], LinkFault]] = {
        "latency": lambda: latency(
            delay_ms=disturbance.amount_ms, jitter_ms=disturbance.amount_ms // 2, upward=False
        ),
        "blackhole": lambda: Swallowing(upward=True, downward=True),
        "down": ShutPort,
        "reset": SimulatedReset,
    }
    return make[disturbance.kind]()
