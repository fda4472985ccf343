"""What a job is offered in one run: its records, a few at a time, each noted before it can have an effect.

A few are there at the launch; the others come from the job's first message on, since a JVM takes seconds to start, and
as slowly as the job works, so that a start that is killed has input left. Invariant: a record is offered once, in
order; the end of the input is told when the last one is there, unless the job waits for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from harness.levels.job.finished import ExpectedRows
from harness.levels.job.order import JobOrder
from harness.levels.job.recording import JobRecording
from harness.levels.job.records import JobInput, SourceRecord
from harness.levels.job.sink_rows import id_text
from harness.levels.job.sources import JobSource, TableSource
from harness.system.clock import monotonic_us
from harness.system.errors import WorldError

_CHUNKS: Final = 20
_SILENT_US: Final = 20_000_000
"""A job that has sent nothing for so long waits for more input."""
_AWAY_MAX_US: Final = 60_000_000
GAPS: Final = "source-gaps"
"""The fault of a source whose gaps fill later."""


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
    reads: Callable[[int], Sequence[bool]]
    """For each read of the source's table that was sent after this time or still waits, whether it was answered."""
    gap_max_us: int
    """How long a gap stays if the job does not read the table."""
    filled: int = 0
    """How many gaps have been filled."""
    overtaken: int = 0
    """How many of them the job could see, for it read the table meanwhile; a read with locks waits."""
    _gap_us: int | None = None
    """Since when there is a gap."""
    _away_us: int | None = None
    """Since when the source takes nothing."""
    _noted: int = 0
    _noted_rounds: int = 0
    """How many records, and rounds of sentinels, have been noted; not all are taken if a fault has the server down."""

    def offer_all(self) -> None:
        """Puts in all that is left, as far as the source takes it now."""
        self._offer(len(self.given.records))

    def offer_due(self, *, began_us: int, spoke_us: int | None, work_us: int) -> None:
        """Puts in what is due by now, of a job that was started and has sent its first message then; called often.

        `work_us`: how long it writes without faults; 0: not known.
        """
        total, spread = len(self.given.records), self.order.scenario.offer
        if spread == "all":
            self.offer_all()
            return
        since_us = began_us + _SILENT_US if spoke_us is None else spoke_us
        chunks, span_us = min(_CHUNKS, total), max(spread * 1000, work_us)
        passed = min(chunks, 1 + max(0, monotonic_us() - since_us) * chunks // span_us)
        self._offer(total * passed // chunks)

    def _offer(self, due: int) -> None:
        """Offers the records up to number `due`, a few at a time; behind a gap none before it is filled."""
        records = self.given.records
        step = max(1, -(-len(records) // _CHUNKS))
        while not self._has_gap() and self.offered < due:
            some = records[self.offered : min(due, self.offered + step)]
            for record in some[self._noted - self.offered :]:
                self._note(record)
            self._noted = self.offered + len(some)
            if self.first_us is None:
                self.first_us = monotonic_us()
            is_last = self._noted == len(records)
            if not self._is_taken(
                self.source.offer(some, is_last=is_last and self.order.job.job.ends != "settles")
            ):
                return
            self.offered = self._noted
            if isinstance(self.source, TableSource) and self.source.has_gaps:
                if not self.filled:
                    self.recording.note("fault", f=GAPS, phase="begin")
                self._gap_us = monotonic_us()
            elif is_last:
                self.ended_us = monotonic_us()

    def _note(self, record: SourceRecord) -> None:
        of_keys = self.order.job.sink.rows == "key"
        rows = None if of_keys else self.expected.get(id_text(record.id))
        told: dict[str, Any] = {"part": record.part, "pos": record.pos, "id": record.id, "key": record.key}
        if record.fails:
            told["fails"] = True
        elif rows is not None:
            told["expect"] = [list(values) for values in rows]
        self.recording.note_offer(**told)

    def _is_taken(self, taken: bool) -> bool:  # noqa: FBT001 - what the source said
        """Whether the source has taken what it was given. Raises WorldError if it has not for too long."""
        self._away_us = None if taken else self._away_us or monotonic_us()
        if self._away_us is not None and monotonic_us() - self._away_us > _AWAY_MAX_US:
            message = f"the job's source could not be written for {_AWAY_MAX_US / 1e6:g} s"
            raise WorldError(message, fix="run it again with --keep always, and look at the server's log")
        return taken

    def _has_gap(self) -> bool:
        """Whether a row is missing before others; it is committed once the job has read the table, or had time to."""
        if self._gap_us is None:
            return False
        reads = self.reads(self._gap_us)
        if not any(reads) and monotonic_us() - self._gap_us < self.gap_max_us:
            return True
        assert isinstance(self.source, TableSource), "only a table has gaps"
        if not self._is_taken(self.source.commit_late()):
            return True
        self._gap_us = None
        self.filled, self.overtaken = self.filled + 1, self.overtaken + bool(reads)
        if self.offered == len(self.given.records):
            self.ended_us = monotonic_us()
            self.source.has_gaps = False
            self.recording.ends(GAPS)
            evidence = {"gaps": self.filled, "read_while_open": self.overtaken} if self.overtaken else {}
            self.recording.evidence(GAPS, 0, evidence=evidence)
        return False

    def offer_sentinels(self) -> int:
        """Puts in the next round of sentinels; returns how many.

        They are for a job that never ends, and has gone quiet without its last records: if a sentinel comes through,
        what stands before it is not under way any more, and a buffer that waits for more rows has got them.
        """
        some = self.given.sentinels[self.rounds]
        for record in some if self._noted_rounds == self.rounds else ():
            told = {"part": record.part, "pos": record.pos, "id": record.id, "key": record.key}
            self.recording.note_offer(**told, sentinel=True)
        self._noted_rounds = self.rounds + 1
        if not self._is_taken(self.source.offer(some, is_last=False)):
            return 0
        self.rounds += 1
        self.ended_us = monotonic_us()
        return len(some)
