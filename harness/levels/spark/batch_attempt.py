"""An attempt that runs one batch of a subtask in a Spark task; its driver commits what it hands over.

Answers to Flink's stop-with-savepoint: the task restores the snapshot of the epoch before, reads its range, takes the
checkpoint at the barrier behind it, and is cancelled with its calls in flight; the last range drains. Invariants: the
operator and its task are those of every level; the barrier is held back until the first record in the operator is
resolved, for else a lookup slower than a batch would be asked again for ever; a worker commits nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import msgspec

from harness.database.batch_sink import PartOfEpoch, TextRow
from harness.database.checkpoint_store import CheckpointStore
from harness.database.epoch import DeadRow, SavedEpoch, Sink, Takeover, Visible
from harness.engine.attempt import AttemptFailed, AttemptParts, run_share
from harness.engine.subtask import Subtask
from harness.history.event import Dead, OfAttempt, Out, Start
from harness.history.follower import fatal_fault
from harness.history.journal import EventLog, Journal
from harness.history.notes import InProcess, Made
from harness.history.recorder import Recorder, attempt_file, decode_line
from harness.levels.live.place import RealPlace
from harness.levels.spark.run_attempts import is_closed
from harness.scenario.model import Scenario
from harness.scenario.plan import RunPlan
from harness.scenario.workloads.lookups import Lookup, LookupSource, MarkOfTime
from harness.sut.coordination import AtomicCoordination, AttemptLog
from harness.sut.positions import SubtaskSource, restored
from harness.sut.variant import Variant
from harness.system.clock import monotonic_us
from harness.system.json_types import Json
from harness.system.process_identity import ProcessIdentity
from reference_impl.elements import Record, Watermark
from reference_impl.errors import CancelTaskException
from reference_impl.task.input_processor import Checkpoint

_NEVER_MS = 1_000_000_000
_LOOK_AGAIN_MS = 5


class ShareOfBatch(msgspec.Struct, frozen=True, kw_only=True):
    """What one subtask has to do in one batch."""

    subtask: int
    epoch: int
    begin: int
    end: int
    length: int
    """The length of the subtask's whole source."""
    number: int
    """The number of the first attempt; each further try has the next one."""
    origin_ms: int
    saved: SavedEpoch | None
    by: str | None
    """The cause of the first attempt's start, if it follows no failure."""
    driver: ProcessIdentity
    """The process that holds what an attempt has made, until it commits."""

    @property
    def is_last(self) -> bool:
        return self.end == self.length

    @property
    def head(self) -> int | None:
        """The first record that is restored."""
        elements = () if self.saved is None else self.saved.elements
        return next((element["lookup"]["id"] for element in elements if "lookup" in element), None)


def run_batch(
    plan: RunPlan, share: ShareOfBatch, rows: Mapping[int, str], *, tries: int, variant: Variant
) -> PartOfEpoch:
    """Runs the attempt that is the `tries`-th try of `share`, counted from 0, on these rows of the source.

    Raises `AttemptFailed`, also if the run is over, or SutError if the function under test breaks a rule.
    """
    if is_closed(Path(plan.folder)):
        raise AttemptFailed(f"run {plan.run_id} is over")
    scenario = Scenario.model_validate(plan.scenario)
    if scenario.task is not None and scenario.task.async_snapshot:
        # A batch has no elements behind its barrier, so the asynchronous part of its snapshot ends at once.
        task = scenario.task.model_copy(update={"async_snapshot": 0})
        scenario = scenario.model_copy(update={"task": task})
    number = share.number + tries
    # With keyed state a record may stay there for longer than a batch, so only lookups are waited for.
    progress = BatchProgress(share, first=_first_record(rows, share) if scenario.task is None else None)
    by = share.by
    if tries:  # the fault for which the try before was about to end its process, if its last line says so
        path = attempt_file(Path(plan.folder), subtask=share.subtask, attempt=number - 1)
        # Spark may start the next try before the harness has seen that the process is gone.
        whole, _, _ = path.read_bytes().rpartition(b"\n") if path.exists() else (b"", b"", b"")
        last = whole.rpartition(b"\n")[2]
        by = fatal_fault(decode_line(last)) if last else None
    place = _BatchPlace(plan, scenario, share, variant, progress=progress, by=by)
    chosen = _HandedOver(plan, share, place=place, progress=progress, variant=variant)
    parts = AttemptParts(
        plan=plan,
        scenario=scenario,
        subtask=share.subtask,
        place=place,
        variant=variant,
        share=_OfBatch(scenario, rows, progress=progress),
    )
    run_share(parts, Takeover(number=number, origin_ms=share.origin_ms, saved=share.saved), chosen=chosen)
    checkpoint = chosen.checkpoint
    assert checkpoint is not None, "a batch that has ended took its checkpoint"
    return PartOfEpoch(
        subtask=share.subtask,
        attempt=number,
        rows=chosen.rows,
        dead=chosen.dead,
        position=checkpoint[0],
        elements=checkpoint[1],
    )


def _first_record(rows: Mapping[int, str], share: ShareOfBatch) -> int | None:
    """The first record of the range that has another element behind it; None: there is none."""
    for position in range(share.begin, share.end - 1):
        element = json.loads(rows[position]) if position in rows else {}
        if "lookup" in element:
            first: int = element["lookup"]["id"]
            return first
    return None


class BatchProgress:
    """The progress of a batch. Mutable."""

    def __init__(self, share: ShareOfBatch, *, first: int | None = None) -> None:
        """`first`: the record to wait for if none was restored."""
        self.share = share
        head = first if share.head is None else share.head
        self.waits_for = None if share.is_last else head
        """The first record in the operator, which must be resolved before the barrier; None: nothing is waited for."""

    def resolved(self, id: int) -> None:
        """Note that record `id` has emitted all its results."""
        if id == self.waits_for:
            self.waits_for = None


class _OfBatch:
    """Implements `Share`."""

    task: ClassVar[type[Subtask]]

    def __init__(self, scenario: Scenario, rows: Mapping[int, str], *, progress: BatchProgress) -> None:
        self._scenario = scenario
        self._rows = rows
        self._progress = progress

    def source(self, elements: LookupSource, *, origin_ms: int) -> SubtaskSource:
        workload, length = self._scenario.workload, self._progress.share.length
        return BatchSource(
            _DeliveredElements(self._rows, length=length, source=elements),
            checkpoint_every=workload.checkpoint_every,
            origin_ms=origin_ms,
            reuses_objects=workload.reuses_objects,
            progress=self._progress,
            keeps_pace=bool(elements.silences),
        )


class _DeliveredElements:
    """The elements that Spark has delivered, in the form of a `LookupSource`, and when each is due.

    A position outside of the range, to which only a planted defect goes, is read from the source itself.
    """

    def __init__(self, rows: Mapping[int, str], *, length: int, source: LookupSource) -> None:
        self._rows = rows
        self._length = length
        self._source = source
        self.due_ms = source.due_ms

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, position: int) -> tuple[Lookup, int | None] | MarkOfTime:
        if position not in self._rows:
            return self._source[position]
        match restored(json.loads(self._rows[position])):
            case Watermark(timestamp=timestamp):
                return MarkOfTime(timestamp=timestamp)
            case Record(value=lookup, timestamp=timestamp):
                return lookup, timestamp
        message = f"a source has records and watermarks only, and position {position} is neither"
        raise TypeError(message)


class BatchSource(SubtaskSource):
    """The share of a batch: its last element is held back for the restored head, and nothing comes behind it."""

    def __init__(
        self, elements: Any, *, progress: BatchProgress, keeps_pace: bool = False, **settings: Any
    ) -> None:
        """`keeps_pace`: a batch that begins late is late as a whole, so that a pause inside of it stays one."""
        super().__init__(elements, **settings)
        self._progress = progress
        late_ms = monotonic_us() // 1000 - super().due_ms(progress.share.begin)
        self._late_ms = max(0, late_ms) if keeps_pace else 0

    def due_ms(self, position: int) -> int:
        share = self._progress.share
        if position >= share.end and not share.is_last:
            return monotonic_us() // 1000 + _NEVER_MS
        due_ms = super().due_ms(position) + self._late_ms
        if position == share.end - 1 and self._progress.waits_for is not None:
            return max(due_ms, monotonic_us() // 1000 + _LOOK_AGAIN_MS)
        return due_ms


class _BatchSubtask(Subtask):
    """A subtask that is cancelled at its barrier, unless its source ends in this batch."""

    def run(self, checkpoint: Checkpoint | None = None) -> None:
        handed: _BatchCoordination = self._coordination  # type: ignore[assignment]  # see `_HandedOver`
        handed.cuts_with(lambda: self._task.cancel() if self._task is not None else None)
        try:
            super().run(checkpoint)
        except CancelTaskException:
            if not handed.is_cut:
                raise


_OfBatch.task = _BatchSubtask


class _BatchCoordination(AtomicCoordination):
    """Hands the checkpoint over to the driver, which commits. Mutable."""

    def __init__(self, log: AttemptLog, *, sink: Sink, progress: BatchProgress) -> None:
        super().__init__(log, sink=sink)
        self._progress = progress
        self._cut: Callable[[], None] = lambda: None
        self.is_cut = False

    def cuts_with(self, cut: Callable[[], None]) -> None:
        """`cut` ends the task at its barrier."""
        self._cut = cut

    def completes(self, checkpoint: Checkpoint) -> None:
        """Hands over snapshot and outputs; calls in flight are cancelled with the task."""
        elements = self.snapped(checkpoint)
        share = self._progress.share
        assert checkpoint.number == share.epoch, (
            f"epoch {share.epoch} ends with checkpoint {checkpoint.number}"
        )
        self._sink.commit(checkpoint.number, position=checkpoint.position, elements=elements)
        if not share.is_last:
            self.is_cut = True
            self._cut()

    def drained(self) -> None:
        """Does nothing: the driver records it, when it has committed."""


class _HandedOver:
    """The sink of one attempt, whose commit is the hand-over; implements `Committing`. Mutable."""

    def __init__(
        self,
        plan: RunPlan,
        share: ShareOfBatch,
        *,
        place: RealPlace,
        progress: BatchProgress,
        variant: Variant,
    ) -> None:
        self.store = CheckpointStore(place.files, subtask=share.subtask, seed=plan.seed)
        self.reach: Callable[[str], None] = lambda phase: None
        self.rows: list[TextRow] = []
        self.dead: list[DeadRow] = []
        self.checkpoint: tuple[int, list[dict[str, Any]]] | None = None
        self._progress = progress
        self._variant = variant

    @property
    def sink(self) -> _HandedOver:
        return self

    def coordination(self, log: AttemptLog, *, timers: object, restored: int) -> _BatchCoordination:
        del timers, restored
        kind = self._variant.coordination(_BatchCoordination)
        made: _BatchCoordination = kind(log, sink=self, progress=self._progress)
        return made

    def add(self, row: Visible) -> None:
        self.rows.append(TextRow(id=row.id, j=row.j, text=json.dumps(row.value)))

    def write_dead_letter(self, *, id: int, error: str) -> None:
        self.dead.append(DeadRow(id=id, error=error))

    def commit(self, epoch: int, *, position: int, elements: Sequence[Json]) -> None:
        """Keeps the checkpoint for the driver."""
        del epoch
        self.checkpoint = position, list(elements)


class _BatchPlace(RealPlace):
    """As at level live, with a journal that leaves the end of the attempt to the driver."""

    def __init__(
        self,
        plan: RunPlan,
        scenario: Scenario,
        share: ShareOfBatch,
        variant: Variant,
        *,
        progress: BatchProgress,
        by: str | None,
    ) -> None:
        super().__init__(plan, scenario, share.subtask, variant)
        self._progress = progress
        self._by = by

    @contextmanager
    def journal(self, attempt: int) -> Iterator[Journal]:
        path = attempt_file(Path(self._plan.folder), subtask=self._subtask, attempt=attempt)
        with self._variant.recorder(Recorder)(path) as recorder:
            yield JournalOfBatch(
                recorder, subtask=self._subtask, attempt=attempt, progress=self._progress, by=self._by
            )


class JournalOfBatch(Journal):
    """The journal of one attempt in a batch. Mutable: it tells the batch what is resolved."""

    def __init__(
        self, log: EventLog, *, subtask: int, attempt: int, progress: BatchProgress, by: str | None
    ) -> None:
        super().__init__(log, subtask=subtask, attempt=attempt)
        self._progress = progress
        self._by = by

    def event(self, kind: type[OfAttempt], **fields: Any) -> None:
        if kind is Start and self._by is not None:
            fields["by"] = self._by
        super().event(kind, **fields)
        if kind is Out or kind is Dead:
            self._progress.resolved(fields["id"])

    def settled(self, *, id: int, final: bool, values: Sequence[object] | None, **outcome: Any) -> None:
        super().settled(id=id, final=final, values=values, **outcome)
        if final and not values:
            self._progress.resolved(id)

    def closed(self) -> None:
        """Hands the attempt over to the driver, which says that it is over when it has committed.

        The worker goes on to other attempts, and if it dies there this one does not die with it.
        """
        self.note(Made(events=self._made))
        driver = self._progress.share.driver
        self.note(InProcess(pid=driver.pid, started=driver.started))
