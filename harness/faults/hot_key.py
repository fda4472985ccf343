"""`hot_key`: from one record on, a share of the records ask for key 0, whose lookup is slow.

Evidence: among the records taken from there on, the key's share is at least 70 % of the requested share, and higher
than before.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from msgspec.structs import replace

from harness.faults.model.fields import Count, Delay, Share, Subtask
from harness.faults.model.workload import Element, ShapedSource, ShapingFault
from harness.faults.real.evidence import RecordedFault
from harness.faults.simulated.acts import Shaped
from harness.history.event import In, Wm
from harness.system.choices import Draw
from harness.system.json_types import Json

HOT_KEY = 0
"""The key that a skewed source asks for most often."""
_SHARE = 0.7
"""The part of the requested share that must be found; each record is drawn separately."""
_RECORDS_MIN = 5
"""The share of fewer records shows nothing."""


class HotKey(ShapingFault):
    """Lets a share of the records ask for one key, with a long service time."""

    about = "From one record on, a share of the records ask for one key, whose lookup is slow."
    must_show = (
        "Of the records taken from there on, nearly that share or more has the key, and more than before."
    )
    can = ("late",)

    do: Literal["hot_key"]
    share: Share
    delay: Delay
    subtask: Subtask | None = None
    count: Count | None = None
    """How many records are affected; absent: all from there on."""

    def reshaped(self, records: list[Element], *, seed: int, subtask: int) -> list[Element]:
        first = self.first_record - 1
        last = len(records) if self.count is None else first + self.count
        draw = Draw(seed, f"fault {self.id}/subtask {subtask}")
        return [
            (replace(lookup, key=HOT_KEY, service_ms=self.delay), ts)
            if first <= index < last and draw.chance(self.share * 10)
            else (lookup, ts)
            for index, (lookup, ts) in enumerate(records)
        ]

    def place(self, source: ShapedSource, *, records: int) -> range:
        first = source.position_of(min(self.first_record, records))
        if self.count is None:
            return range(first, len(source))
        return range(first, source.position_of(min(records, self.first_record + self.count - 1)) + 1)

    def watched(self) -> Shaped:
        return _Heated()

    def found_at(self, taken: Sequence[In | Wm], place: int) -> RecordedFault:
        before = [line for line in taken[:place] if isinstance(line, In)]
        records = [line for line in taken[place:] if isinstance(line, In)][: self.count]
        began_us, ended_us = records[0].t, records[-1].t
        share, usual = _share(records), _share(before)
        if len(records) < _RECORDS_MIN or share < self.share / 100 * _SHARE or share <= usual:
            return RecordedFault(began_us=began_us, ended_us=ended_us)
        evidence = {
            "subtask": records[0].s,
            "records": len(records),
            "hot": sum(line.key == HOT_KEY for line in records),
            "share_percent": round(share * 100),
            "share_before_percent": round(usual * 100),
        }
        return RecordedFault(began_us=began_us, measured_us=ended_us, ended_us=ended_us, evidence=evidence)


def _share(records: Sequence[In]) -> float:
    return sum(line.key == HOT_KEY for line in records) / len(records) if records else 0.0


class _Heated(Shaped):
    """Counts records of the hot key. Mutable: see `Shaped`."""

    def take(self, taken: In | Wm, place: range, *, key: tuple[int, int], quiet_ms: int) -> None:
        del quiet_ms
        if taken.pos in place and isinstance(taken, In) and taken.key == HOT_KEY:
            self.begun = True
            self.touched[key] = None

    def evidence(self) -> Json:
        return {"records": len(self.touched)} if self.touched else {}
