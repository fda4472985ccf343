"""What a driver records of the batches that it commits, and the crashes that are planned for it.

Answers to Spark's commit log, as a witness that is not Spark's. Invariants: a line is written before what it tells
takes effect, save a commit, which follows it; hits of a phase are counted over all drivers of a run, from their files;
a crash acts once over all drivers.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from harness.database.batch_sink import Begun, PartOfEpoch
from harness.faults.kill_worker import InjectedFailure, die
from harness.history.event import Close, Done, End, Ended, Failed, Start
from harness.history.notes import (
    AttemptNote,
    BatchBegun,
    BatchSkipped,
    CommitBegun,
    Dies,
    HeardComplete,
    InProcess,
    Line,
    LostConnection,
    Reached,
    ServerError,
)
from harness.history.recorder import Recorder, decode_lines, driver_file
from harness.scenario.plan import RunPlan
from harness.system.process_identity import this_process


class _Earlier:
    """What the drivers before this one have recorded. Mutable while it is read."""

    def __init__(self, folder: Path, *, start: int) -> None:
        self.hits: Counter[tuple[int, str]] = Counter()
        self.acted: set[str] = set()
        self.closed: defaultdict[int, set[int]] = defaultdict(set)
        """The attempts of each subtask that were closed."""
        self.begun: set[int] = set()
        """The epochs whose batch was begun."""
        self.completed: set[int] = set()
        """The epochs that were noted as complete."""
        for number in range(1, start):
            path = driver_file(folder, start=number)
            for line in decode_lines(path.read_bytes()) if path.exists() else ():
                self._note(line)

    def _note(self, line: Line) -> None:
        match line:
            case Reached():
                self.hits[line.s, line.phase] += 1
            case Ended():
                self.hits[line.s, "close"] += 1
            case Dies():
                self.acted.add(line.fault)
            case Close():
                self.closed[line.s].add(line.a)
            case BatchBegun():
                self.begun.add(line.c)
            case HeardComplete():
                self.completed.add(line.c)


class BatchJournal:
    """The journal of the `start`-th driver of a run. Mutable: counts what was reached."""

    def __init__(self, plan: RunPlan, *, start: int) -> None:
        folder = Path(plan.folder)
        self._earlier = _Earlier(folder, start=start)
        self._crashes = plan.crashes
        self._recorder = Recorder(driver_file(folder, start=start))
        self._of_run = Recorder(folder / f"driver-{start:04d}.jsonl")
        """For events of the run, which are no attempt's."""
        self._process = this_process()
        self._present = (0, 0)
        """The subtask and the attempt for which a lost connection of the sink is noted."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._recorder.close()
        self._of_run.close()

    def begins(self, epoch: int, subtasks: Sequence[int]) -> bool:
        """A batch begins; whether no driver, this one included, has begun it before."""
        is_new = epoch not in self._earlier.begun
        self._earlier.begun.add(epoch)
        self._recorder.write(BatchBegun(s=subtasks[0], c=epoch))
        return is_new

    def skips(self, epoch: int, subtasks: Sequence[int]) -> None:
        """The batch is not run, because its epoch is visible."""
        self._recorder.write(BatchSkipped(s=subtasks[0], c=epoch))

    def is_closed(self, subtask: int, attempt: int) -> bool:
        """Whether a driver has recorded that the attempt was closed."""
        return attempt in self._earlier.closed[subtask]

    def takes(self, parts: Sequence[PartOfEpoch]) -> None:
        """Note that from here on this process acts for these attempts."""
        for part in parts:
            self._note(part, InProcess(pid=self._process.pid, started=self._process.started))
        self._present = (parts[0].subtask, parts[0].attempt)

    def committing(self, epoch: int, parts: Sequence[PartOfEpoch]) -> None:
        for part in parts:
            self._note(part, CommitBegun(c=epoch))

    def committed(self, epoch: int, parts: Sequence[PartOfEpoch]) -> None:
        for part in parts:
            self._recorder.claim(s=part.subtask, a=part.attempt, c=epoch)

    def complete(self, epoch: int, subtasks: Sequence[int]) -> None:
        """Spark has logged that the batch of `epoch` is over, so its state is what is restored next; noted once.

        It is noted for each of its subtasks, since a fault may wait for the checkpoint of one. Epoch 0 has no batch.
        """
        if epoch and epoch not in self._earlier.completed:
            self._earlier.completed.add(epoch)
            self._of_run.event(Done, c=epoch)
            for subtask in subtasks:
                self._recorder.write(HeardComplete(s=subtask, c=epoch))

    def over(self, part: PartOfEpoch, *, is_last: bool) -> None:
        """The attempt of `part` is over; `is_last`: its operator has drained."""
        if is_last:
            self._recorder.event(Ended, s=part.subtask, a=part.attempt)
            self.reach(part, "close")
        self._recorder.event(Close, s=part.subtask, a=part.attempt)
        self._earlier.closed[part.subtask].add(part.attempt)

    def failed(self, parts: Sequence[PartOfEpoch], error: BaseException, *, by: str | None) -> None:
        """The commit of these attempts has failed; of a planned failure only that of its own subtask."""
        own = [
            part for part in parts if isinstance(error, InjectedFailure) and part.subtask == self._present[0]
        ]
        for part in own or parts:
            self._recorder.event(
                Failed,
                s=part.subtask,
                a=part.attempt,
                error=f"{type(error).__name__}: {error}",
                by=msgspec.UNSET if by is None else by,
            )

    def ends_again(self, begun: Begun) -> None:
        """A subtask whose last epoch is visible is found at the end of its source, with no attempt that said so."""
        names = {"s": begun.subtask, "a": begun.number}
        assert begun.saved is not None, "its last epoch is visible"
        self._recorder.event(Start, **names, from_=begun.saved.epoch, pos=begun.saved.position)
        self._recorder.event(InProcess, **names, pid=self._process.pid, started=self._process.started)
        for kind in (End, Ended, Close):
            self._recorder.event(kind, **names)

    def lost(self, code: int | str) -> None:
        subtask, attempt = self._present
        self._recorder.write(LostConnection(s=subtask, a=attempt, link="sink", code=code))

    def trouble(self, code: int | str) -> None:
        subtask, attempt = self._present
        self._recorder.write(ServerError(s=subtask, a=attempt, link="sink", code=code))

    def reach(self, part: PartOfEpoch, phase: str) -> None:
        """The driver is at `phase` of this attempt; a planned crash acts here."""
        due = [crash for crash in self._crashes if (crash.subtask, crash.phase) == (part.subtask, phase)]
        if not due:
            return
        hits = self._earlier.hits
        hits[part.subtask, phase] += 1
        if phase != "close":  # which `ended` shows
            self._note(part, Reached(phase=phase))
        for crash in due:
            if crash.hit == hits[part.subtask, phase] and crash.fault not in self._earlier.acted:
                self._earlier.acted.add(crash.fault)
                self._present = (part.subtask, part.attempt)
                self._note(part, Dies(fault=crash.fault, phase=phase, hit=crash.hit, how=crash.how))
                die(crash.how, why=f"fault {crash.fault} at {phase} #{crash.hit}", by=crash.fault)

    def _note(self, part: PartOfEpoch, note: AttemptNote) -> None:
        self._recorder.write(msgspec.structs.replace(note, s=part.subtask, a=part.attempt))
