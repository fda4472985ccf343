"""`watermark_burst`: before one record the source sends `count` watermarks in a row.

Evidence: an attempt took at least that many watermarks in a row right before that record.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Literal

from harness.faults.model.fields import Count, Subtask
from harness.faults.model.workload import ShapedSource, ShapingFault
from harness.faults.real.evidence import RecordedFault
from harness.faults.simulated.acts import Shaped
from harness.history.event import In, Wm
from harness.system.json_types import Json


class WatermarkBurst(ShapingFault):
    """Inserts watermarks before one record."""

    about = "Before one record the source sends `count` watermarks in a row."
    must_show = "An attempt took at least that many watermarks in a row right before that record."
    can = ()

    do: Literal["watermark_burst"]
    count: Count
    subtask: Subtask | None = None

    def burst(self, records: int) -> tuple[int, int]:
        return min(self.first_record - 1, records), self.count

    def place(self, source: ShapedSource, *, records: int) -> range:
        first = source.position_of(min(self.first_record, records))
        return range(first - self.count, first)

    def watched(self) -> Shaped:
        return _Burst(of_one=self.subtask is not None)

    def found_at(self, taken: Sequence[In | Wm], place: int) -> RecordedFault:
        record, burst = (
            taken[place],
            list(takewhile(lambda line: isinstance(line, Wm), reversed(taken[:place]))),
        )
        began_us, ended_us = burst[-1].t if burst else record.t, record.t
        if len(burst) < self.count:
            return RecordedFault(began_us=began_us, ended_us=ended_us)
        evidence = {
            "subtask": record.s,
            "watermarks": len(burst),
            "within_ms": round((ended_us - began_us) / 1000, 1),
        }
        return RecordedFault(began_us=began_us, measured_us=ended_us, ended_us=ended_us, evidence=evidence)


class _Burst(Shaped):
    """Counts the inserted watermarks. Mutable: see `Shaped`."""

    def __init__(self, *, of_one: bool) -> None:
        super().__init__()
        self._of_one = of_one

    def take(self, taken: In | Wm, place: range, *, key: tuple[int, int], quiet_ms: int) -> None:
        del quiet_ms
        if taken.pos in place:
            self.begun = True
            self.touched[key] = None
            self.over = taken.pos == place.stop - 1 and self._of_one

    def evidence(self) -> Json:
        return {"watermarks": len(self.touched)} if self.touched else {}
