"""`pause_worker`: stop the worker of a subtask by SIGSTOP; it goes on when the fault heals.

With a `phase` trigger the attempt stops itself, exactly at that point. Evidence: the operating system reports the
process as stopped, its attempt writes nothing until it goes on, and writes something afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Literal

from harness.faults.model.fault import OutsideFault, Repeats
from harness.faults.model.fields import Lasts, Subtask
from harness.faults.real.evidence import Evidence, Seen, attempt_of, is_speech
from harness.faults.real.fault_site import Site
from harness.faults.real.sites import AttemptSite, stop
from harness.faults.simulated.acts import Act, SimulatedRun, StoppedWorker


class PauseWorker(OutsideFault, Repeats):
    """Stops the process of `subtask`'s newest attempt for a while."""

    about = "The worker of one subtask is stopped (SIGSTOP) for a while, at a time or at a phase."
    must_show = (
        "The operating system reported the process as stopped; its attempt wrote nothing until it went on."
    )
    stalls = True
    by = "process"
    triggers = (*OutsideFault.triggers, "phase")
    attempts_own = True
    can = ("late",)

    do: Literal["pause_worker"]
    subtask: Subtask
    lasts: Lasts

    @contextmanager
    def inject(self, site: Site) -> Iterator[None]:
        """Does nothing if the subtask has no process any more."""
        from harness.faults.real.suspension import awaited, suspended

        who = awaited(partial(site.workers.process, self.subtask))
        if who is None:
            yield
            return
        with suspended(who, site.note_fact):
            yield

    def evidence(self, seen: Seen) -> Evidence:
        stopped = seen.fact("stopped")
        if stopped is None:
            return {}
        evidence: Evidence = {"pid": stopped["pid"], "state": stopped["state"]}
        if not seen.events:  # the run goes on, so only that it was stopped can be shown
            return evidence
        resumed = seen.fact("resumed")
        attempt = attempt_of(stopped["pid"], stopped["started"], seen.events, by_us=stopped["at_us"])
        if resumed is None or attempt is None:
            return {}
        spoken = [
            line.t
            for line in seen.events
            if is_speech(line) and (line.s, line.a) == attempt and line.t >= stopped["at_us"]
        ]
        after = [at_us for at_us in spoken if at_us >= resumed["at_us"]]
        if len(after) != len(spoken) or not after:
            return {}
        silent_ms = round((resumed["at_us"] - stopped["at_us"]) / 1000, 1)
        return {**evidence, "subtask": attempt[0], "attempt": attempt[1], "silent_ms": silent_ms}

    def act_in_attempt(self, attempt: AttemptSite) -> None:
        stop(self.id, attempt)

    def simulated(self, run: SimulatedRun) -> Act:
        return StoppedWorker(run, self.subtask)
