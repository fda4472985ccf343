"""What a job is offered in one run: its records, a few at a time, each noted before it can have an effect.

Invariant: a record is offered once, in order; the end of the input is told when the last one is there, unless the job
waits for ever.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from harness.levels.job.finished import ExpectedRows
from harness.levels.job.order import JobOrder
from harness.levels.job.recording import JobRecording
from harness.levels.job.records import JobInput
from harness.levels.job.sink_rows import id_text
from harness.levels.job.sources import JobSource
from harness.system.clock import monotonic_us

_CHUNKS: Final = 20


@dataclass(slots=True, kw_only=True)
class Offering:
    """Puts the records into the source. Mutable."""

    order: JobOrder
    given: JobInput
    source: JobSource
    recording: JobRecording
    expected: ExpectedRows
    """What each record must yield, as far as that is known."""
    offered: int = 0
    """How many records the source holds."""
    first_us: int | None = None
    """When the first one was put in."""
    ended_us: int | None = None
    """When the last one was, or the last sentinels were."""
    rounds: int = 0
    """How many rounds of sentinels the source holds."""

    def offer_all(self) -> None:
        """Puts in all that is left."""
        self._offer(len(self.given.records))

    def offer_due(self, began_us: int) -> None:
        """Puts in what is due by now, of a run whose job was started then."""
        total, spread = len(self.given.records), self.order.scenario.offer
        if spread == "all":
            self.offer_all()
            return
        chunks = min(_CHUNKS, total)
        passed = min(chunks, 1 + (monotonic_us() - began_us) * chunks // (spread * 1000))
        self._offer(total * passed // chunks)

    def _offer(self, due: int) -> None:
        """Offers the records up to number `due`, a few at a time."""
        records = self.given.records
        step = max(1, -(-len(records) // _CHUNKS))
        while self.offered < due:
            some = records[self.offered : min(due, self.offered + step)]
            for record in some:
                rows = self.expected.get(id_text(record.id))
                told: dict[str, Any] = {
                    "part": record.part,
                    "pos": record.pos,
                    "id": record.id,
                    "key": record.key,
                }
                if record.fails:
                    told["fails"] = True
                elif rows is not None:
                    told["expect"] = [list(values) for values in rows]
                self.recording.note_offer(**told)
            if self.first_us is None:
                self.first_us = monotonic_us()
            is_last = self.offered + len(some) == len(records)
            self.source.offer(some, is_last=is_last and self.order.job.job.ends != "settles")
            self.offered += len(some)
            if is_last:
                self.ended_us = monotonic_us()

    def offer_sentinels(self) -> int:
        """Puts in the next round of sentinels; returns how many.

        They are for a job that never ends, and has gone quiet without its last records: if a sentinel comes through,
        what stands before it is not under way any more, and a buffer that waits for more rows has got them.
        """
        some = self.given.sentinels[self.rounds]
        for record in some:
            told = {"part": record.part, "pos": record.pos, "id": record.id, "key": record.key}
            self.recording.note_offer(**told, sentinel=True)
        self.source.offer(some, is_last=False)
        self.rounds += 1
        self.ended_us = monotonic_us()
        return len(some)
