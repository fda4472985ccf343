"""`store_slow`, `store_failing`: for a while each write to the checkpoint store takes longer, or fails.

Answers to a slow or failing remote file system. Evidence: the delay or the error of a write, as recorded by the writer.
"""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from harness.faults.model.fault import InsideFault
from harness.faults.model.fields import Delay, Lasts, Subtask, Way
from harness.faults.real.evidence import RecordedFault, acts, measurements
from harness.faults.real.sites import AttemptSite
from harness.faults.simulated.acts import Act, Evidence, OnStore, SimulatedRun
from harness.history.notes import Acted, Line, Measured
from harness.system.clock import monotonic_us, pause

if TYPE_CHECKING:
    from harness.system.clock import Clock

_ERRNO = {"no-space": errno.ENOSPC, "read-only": errno.EROFS, "io-error": errno.EIO}


class _OfWrites(InsideFault):
    """Common part: acts on each write for a while."""

    abilities = ("store",)
    stalls = True
    delays_commits = True

    lasts: Lasts
    subtask: Subtask | None = None

    def _found(
        self, lines: Sequence[Line], *, met: Sequence[Measured], evidence: Mapping[str, object]
    ) -> RecordedFault | None:
        """The span from its act to the end of its duration; `met` are the recorded writes that it affected."""
        begun = acts(self.id, lines)
        if not begun:
            return None
        over_us = begun[-1].t + self.lasts * 1000
        return RecordedFault(
            began_us=begun[0].t,
            measured_us=met[0].t if met else None,
            ended_us=over_us if over_us <= lines[-1].t else None,
            evidence=evidence if met else {},
        )


class StoreSlow(_OfWrites):
    """Delays each write."""

    about = "For a while each write to the checkpoint store takes longer, by `delay`."
    must_show = "A write took longer by at least the delay."
    can = ("late",)

    do: Literal["store_slow"]
    delay: Delay

    def act_in_attempt(self, attempt: AttemptSite) -> None:

        def meet() -> None:
            began_us = monotonic_us()
            pause(self.delay / 1000)
            took_ms = round((monotonic_us() - began_us) / 1000, 1)
            attempt.journal.note(Measured(fault=self.id, what="write delayed", facts={"took_ms": took_ms}))

        attempt.journal.note(Acted(fault=self.id, what="store slow", facts={"asked_ms": self.delay}))
        attempt.store.before_writes(meet, lasts_ms=self.lasts)

    def recorded(self, lines: Sequence[Line]) -> RecordedFault | None:
        """The writes that it delayed by at least `delay`."""
        held = [one for one in measurements(self.id, lines) if one.facts["took_ms"] >= self.delay]
        slowest_ms = max((one.facts["took_ms"] for one in held), default=0)
        return self._found(lines, met=held, evidence={"writes": len(held), "slowest_ms": slowest_ms})

    def simulated(self, run: SimulatedRun) -> Act:
        return _SimulatedSlow(run, self.subtask, delay_ms=self.delay)


class StoreFailing(_OfWrites):
    """Makes each write fail."""

    about = "For a while each write to the checkpoint store fails: `no-space`, `read-only` or `io-error`."
    must_show = "A write failed, with the error that the writer got."
    can = ("late",)

    do: Literal["store_failing"]
    how: Annotated[Literal["no-space", "read-only", "io-error"], Way] = "no-space"

    def act_in_attempt(self, attempt: AttemptSite) -> None:
        code = _ERRNO[self.how]

        def meet() -> None:
            facts = {"errno": errno.errorcode[code]}
            attempt.journal.note(Measured(fault=self.id, what="write refused", facts=facts))
            raise OSError(code, os.strerror(code))

        attempt.journal.note(Acted(fault=self.id, what="store failing", facts={"how": self.how}))
        attempt.store.before_writes(meet, lasts_ms=self.lasts)

    def recorded(self, lines: Sequence[Line]) -> RecordedFault | None:
        refused = list(measurements(self.id, lines))
        errors = dict(sorted(Counter(one.facts["errno"] for one in refused).items()))
        return self._found(lines, met=refused, evidence={"writes": len(refused), "errors": errors})

    def simulated(self, run: SimulatedRun) -> Act:
        return _SimulatedFailing(run, self.subtask, code=_ERRNO[self.how])


class _SimulatedSlow(OnStore):
    """Delays each simulated write. Mutable: see `OnStore`."""

    def __init__(self, run: SimulatedRun, subtask: int | None, *, delay_ms: int) -> None:
        super().__init__(run, subtask)
        self._delay_ms = delay_ms

    def act(self, clock: Clock) -> None:
        clock.pause(self._delay_ms / 1000)

    def evidence(self) -> Evidence:
        return {"writes": self.met, "slowed_ms": self.met * self._delay_ms} if self.met else {}


class _SimulatedFailing(OnStore):
    """Makes each simulated write fail. Mutable: see `OnStore`."""

    def __init__(self, run: SimulatedRun, subtask: int | None, *, code: int) -> None:
        super().__init__(run, subtask)
        self._code = code

    def act(self, clock: Clock) -> None:
        del clock
        raise OSError(self._code, os.strerror(self._code))

    def evidence(self) -> Evidence:
        return {"writes": self.met, "errors": {errno.errorcode[self._code]: self.met}} if self.met else {}
