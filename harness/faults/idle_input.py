"""`idle_input`: the source of one subtask pauses before one record; the other sources go on.

Evidence: the attempt took nothing for at least half of the pause right before that record. Half, because a source that
is behind its rate has a backlog to send during the pause.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from harness.faults.model.fields import Lasts, Subtask
from harness.faults.model.workload import ShapedSource, ShapingFault
from harness.faults.real.evidence import RecordedFault
from harness.faults.simulated.acts import Shaped
from harness.history.event import In, Wm
from harness.system.json_types import Json

_SHARE = 0.5
"""The part of the pause that must be found; earlier records may have been late."""


class IdleInput(ShapingFault):
    """Pauses the source of one subtask."""

    about = "The source of one subtask pauses for a while."
    must_show = "The attempt took nothing for at least half of the pause; a backlog may use up the rest."
    can = ()

    do: Literal["idle_input"]
    subtask: Subtask
    lasts: Lasts

    def silence(self) -> tuple[int, int]:
        return self.first_record - 1, self.lasts

    def place(self, source: ShapedSource, *, records: int) -> range:
        """The span from the record before the pause to the record after it."""
        first = min(self.first_record, records)
        return range(source.position_of(max(1, first - 1)), source.position_of(first) + 1)

    def watched(self) -> Shaped:
        return _Silence()

    def found_at(self, taken: Sequence[In | Wm], place: int) -> RecordedFault | None:
        if not place:
            return None
        before, record = taken[place - 1 : place + 1]
        silent_ms = (record.t - before.t) / 1000
        began_us, ended_us = before.t, record.t
        is_of_one = before.a == record.a  # else the time of a restart is in it
        if silent_ms < self.lasts * _SHARE or not is_of_one:
            return RecordedFault(began_us=began_us, ended_us=ended_us)
        evidence = {"subtask": record.s, "silent_ms": round(silent_ms, 1), "asked_ms": self.lasts}
        return RecordedFault(began_us=began_us, measured_us=ended_us, ended_us=ended_us, evidence=evidence)


class _Silence(Shaped):
    """Measures the pause. Mutable: see `Shaped`."""

    def __init__(self) -> None:
        super().__init__()
        self._silent_ms = 0

    def take(self, taken: In | Wm, place: range, *, key: tuple[int, int], quiet_ms: int) -> None:
        del key
        if taken.pos == place.stop - 1:
            self.begun = self.over = True
            self._silent_ms = quiet_ms
        elif taken.pos == place.start:
            self.begun = True

    def evidence(self) -> Json:
        return {"silent_ms": self._silent_ms} if self._silent_ms else {}
