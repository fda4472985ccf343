"""Strangers in the coordination of checkpoints: which acknowledgements count, how a checkpoint ends, what is restored.

Answers to coordinators without a token, to timers that outlive what they guard, and to stores that forget or overwrite
files. Invariant: each is a subclass of the coordinator, of a sink's coordination or of the checkpoint store; a sink
without such checkpoints (atomic) stays as it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from harness.database.checkpoint_store import CheckpointUnreadable, StoreLost
from harness.database.coordinated_sink import PARTS_KEPT, CoordinatedSink
from harness.database.epoch import CheckpointPart, Restored
from harness.history.event import Abort, Retire
from harness.history.notes import Deciding
from harness.sut.coordination import AttemptLog
from harness.sut.defects.defect import SIM_AND_LIVE, both, can_be_superseded, sink_is
from harness.sut.sink_choice import PreparedCoordination
from harness.sut.variant import Kind, Variant, made_once
from tools.defects.kinds import Stranger
from tools.defects.where import has_several_subtasks, is_restored, store_fails, store_is_used

_EVERY: Final = 3
"""Of so many checkpoints one is aborted, too."""


@made_once
def by_majority(coordinator: Kind) -> Kind:
    """`coordinator`, for which more than half of the subtasks are enough."""

    class QuorumCoordinator(coordinator):  # type: ignore[misc]  # a class made of a class
        def _is_complete(self, parts: Mapping[int, int], newest: Mapping[int, Any]) -> bool:
            there = [one.ended or parts.get(subtask) == one.token for subtask, one in newest.items()]
            return sum(map(bool, there)) > len(there) / 2

    return QuorumCoordinator


@made_once
def by_any_attempt(coordinator: Kind) -> Kind:
    """`coordinator`, which does not ask which attempt has acknowledged."""

    class TrustingCoordinator(coordinator):  # type: ignore[misc]
        def _is_complete(self, parts: Mapping[int, int], newest: Mapping[int, Any]) -> bool:
            return all(one.ended or subtask in parts for subtask, one in newest.items())

    return TrustingCoordinator


@made_once
def aborting_completed(coordinator: Kind) -> Kind:
    """`coordinator`, whose timer of a checkpoint is not cancelled when the checkpoint completes."""

    class LateTimer(coordinator):  # type: ignore[misc]
        _note: Any

        def _decide_next(self) -> bool:
            number, note = 0, self._note

            def noting(kind: Any, *, c: int, **fields: Any) -> None:
                nonlocal number
                number = c if kind is Deciding else number
                note(kind, c=c, **fields)

            self._note = noting
            try:
                goes_on: bool = super()._decide_next()
            finally:
                self._note = note
            if goes_on and number % _EVERY == 0:
                note(Abort, c=number)
            return goes_on

    return LateTimer


@made_once
def completing_aborted(coordinator: Kind) -> Kind:
    """`coordinator`, which aborts a checkpoint, and completes it when its last acknowledgement comes after all."""

    class Forgetful(coordinator):  # type: ignore[misc]
        def __init__(self, driver: Any, *, note: Any) -> None:
            def noting(kind: Any, *, c: int, **fields: Any) -> None:
                if kind is Deciding and c % _EVERY == 0:
                    note(Abort, c=c)
                note(kind, c=c, **fields)

            super().__init__(driver, note=noting)

    return Forgetful


@made_once
def acknowledging_unfenced(sink: Kind) -> Kind:
    """`sink`, which acknowledges without a look at the fence: a superseded attempt replaces its successor's part."""
    if not issubclass(sink, CoordinatedSink):
        return sink

    class UnfencedAcks(sink):  # type: ignore[misc]
        _acknowledges = False

        def check_fence(self, cursor: Any) -> None:
            if not self._acknowledges:
                super().check_fence(cursor)

        def _acknowledge(self, cursor: Any, epoch: int, file: str) -> None:
            self._acknowledges = True
            try:
                super()._acknowledge(cursor, epoch, file)
            finally:
                self._acknowledges = False

    return UnfencedAcks


@made_once
def acknowledging_first(coordination: Kind) -> Kind:
    """`coordination`, which acknowledges a checkpoint, and then stores its part."""
    if not issubclass(coordination, PreparedCoordination):
        return coordination

    class HastyCoordination(coordination):  # type: ignore[misc]
        def __init__(self, log: AttemptLog, *, store: Any, sink: Any, **parts: Any) -> None:
            super().__init__(
                log, store=_AcknowledgesFirst(store, sink), sink=_AcknowledgedAlready(sink), **parts
            )

    return HastyCoordination


class _AcknowledgesFirst:
    """A store that acknowledges a part under the name that it is about to get."""

    def __init__(self, store: Any, sink: Any) -> None:
        self._store = store
        self._sink = sink

    def write(self, checkpoint: int, *, attempt: int, **part: Any) -> str:
        self._sink.acknowledge(checkpoint, file=f"checkpoint-{checkpoint:06d}-attempt-{attempt:04d}")
        name: str = self._store.write(checkpoint, attempt=attempt, **part)
        return name

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


class _AcknowledgedAlready:
    def __init__(self, sink: Any) -> None:
        self._sink = sink

    def acknowledge(self, epoch: int, *, file: str) -> None:
        """Nothing: the store did it."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sink, name)


@made_once
def forgetting_too_much(store: Kind) -> Kind:
    """`store`, which removes the files of all checkpoints up to the newest completed one."""

    class ForgetfulStore(store):  # type: ignore[misc]
        def forget_below(self, checkpoint: int) -> None:
            super().forget_below(checkpoint + PARTS_KEPT + 1)

    return ForgetfulStore


@made_once
def believing_writes(store: Kind) -> Kind:
    """`store`, which takes a write that failed for one that was made."""

    class BelievingStore(store):  # type: ignore[misc]
        def _write(self, name: str, body: bytes) -> None:
            try:
                super()._write(name, body)
            except OSError:
                return

    return BelievingStore


@made_once
def starting_anew(store: Kind) -> Kind:
    """`store`, which restores nothing if the newest checkpoint cannot be read."""

    class ResettingStore(store):  # type: ignore[misc]
        def restore(self, parts: Sequence[CheckpointPart], *, committed: int) -> Restored:
            del committed
            try:
                return Restored(saved=self.read(parts[0].file) if parts else None, passed_over=())
            except CheckpointUnreadable:
                return Restored(saved=None, passed_over=())

    return ResettingStore


@made_once
def falling_back_once(store: Kind) -> Kind:
    """`store`, which goes back by one checkpoint at most, and else restores nothing."""

    class OnceStore(store):  # type: ignore[misc]
        def restore(self, parts: Sequence[CheckpointPart], *, committed: int) -> Restored:
            try:
                restored: Restored = super().restore(parts[:2], committed=committed)
            except StoreLost:
                return Restored(saved=None, passed_over=())
            return restored

    return OnceStore


@made_once
def retiring_at_once(coordinator: Kind) -> Kind:
    """`coordinator`, which retires all checkpoints but the newest two."""

    class HastyCoordinator(coordinator):  # type: ignore[misc]
        def __init__(self, driver: Any, *, note: Any) -> None:
            def hasty(kind: Any, **fields: Any) -> None:
                note(kind, **{**fields, "c": fields["c"] + 1} if kind is Retire else fields)

            super().__init__(driver, note=hasty)

    return HastyCoordinator


@made_once
def restoring_oldest(store: Kind) -> Kind:
    """`store`, which restores the oldest checkpoint that is kept: its list is sorted the other way."""

    class OldestStore(store):  # type: ignore[misc]
        def restore(self, parts: Sequence[CheckpointPart], *, committed: int) -> Restored:
            del committed
            restored: Restored = super().restore(parts[::-1], committed=0)
            return restored

    return OldestStore


@made_once
def restoring_newest_file(store: Kind) -> Kind:
    """`store`, which restores the newest file that it has, whether or not its checkpoint is complete."""

    class NewestStore(store):  # type: ignore[misc]
        def restore(self, parts: Sequence[CheckpointPart], *, committed: int) -> Restored:
            names = self.files.names()
            if not names:
                restored: Restored = super().restore(parts, committed=committed)
                return restored
            return Restored(saved=self.read(names[-1]), passed_over=())

    return NewestStore


@made_once
def one_file_a_checkpoint(store: Kind) -> Kind:
    """`store`, whose file names lack the attempt: an attempt writes over the file of another."""

    class OverwritingStore(store):  # type: ignore[misc]
        def write(self, checkpoint: int, *, attempt: int, **part: Any) -> str:
            del attempt
            name: str = super().write(checkpoint, attempt=1, **part)
            return name

    return OverwritingStore


@made_once
def below_committed(store: Kind) -> Kind:
    """`store`, which restores an older checkpoint than the committed one, if the newer cannot be read."""

    class LowStore(store):  # type: ignore[misc]
        def restore(self, parts: Sequence[CheckpointPart], *, committed: int) -> Restored:
            del committed
            restored: Restored = super().restore(parts, committed=0)
            return restored

    return LowStore


_RESTORED = "an attempt is killed, or superseded"
_COORDINATED = "a two-phase or idempotent sink"
_STORED = both(store_is_used, is_restored)

OF_COORDINATORS = (
    Stranger(
        name="completes-by-majority",
        about="a checkpoint completes when more than half of the subtasks have acknowledged it",
        component="coordinator",
        breaks="a completed checkpoint has a part of each subtask",
        variant=Variant(coordinator=by_majority),
        where=f"{_COORDINATED}; several subtasks",
        applies=both(store_is_used, has_several_subtasks),
        levels=("sim",),
        convicted_by=("V10",),
    ),
    Stranger(
        name="stale-acknowledgement-counts",
        about="the acknowledgement of an attempt that was superseded counts for its successor",
        component="coordinator",
        breaks="a completed checkpoint consists of parts of the newest attempts",
        variant=Variant(coordinator=by_any_attempt),
        where=f"{_COORDINATED}; {_RESTORED}",
        applies=_STORED,
        levels=("sim",),
        scenario="old-acknowledgement",
        convicted_by=("V10",),
    ),
    Stranger(
        name="aborts-what-it-completed",
        about="every third checkpoint is aborted after it has completed",
        component="coordinator",
        breaks="a checkpoint has one end",
        variant=Variant(coordinator=aborting_completed),
        where=_COORDINATED,
        applies=store_is_used,
        levels=("sim",),
        convicted_by=("V10",),
    ),
    Stranger(
        name="completes-what-it-aborted",
        about="every third checkpoint completes after it was aborted",
        component="coordinator",
        breaks="a checkpoint has one end",
        variant=Variant(coordinator=completing_aborted),
        where=_COORDINATED,
        applies=store_is_used,
        levels=("sim",),
        convicted_by=("V10",),
    ),
    Stranger(
        name="acknowledges-unfenced",
        about="a superseded attempt's acknowledgement replaces that of its successor",
        component="acknowledgements",
        breaks="an acknowledgement of a superseded attempt has no effect",
        variant=Variant(sink=acknowledging_unfenced),
        where=f"{_COORDINATED}; a superseded attempt goes on",
        applies=both(store_is_used, can_be_superseded),
        levels=SIM_AND_LIVE,
        scenario="late-acknowledgement",
        convicted_by=("V16",),
    ),
    Stranger(
        name="acknowledges-before-storing",
        about="a checkpoint is acknowledged before its file is written",
        component="acknowledgements",
        breaks="a completed checkpoint can be restored",
        variant=Variant(coordination=acknowledging_first),
        where=f"{_COORDINATED}; the store fails, or {_RESTORED}",
        applies=both(store_is_used, lambda scenario: store_fails(scenario) or is_restored(scenario)),
        levels=SIM_AND_LIVE,
        scenario="kill-before-store",
        convicted_by=("V24",),
    ),
    Stranger(
        name="forgets-newest-checkpoint",
        about="the clean-up of the store removes the newest completed checkpoint, too",
        component="checkpoint store",
        breaks="a completed checkpoint can be restored",
        variant=Variant(store=forgetting_too_much),
        where=f"{_COORDINATED}; {_RESTORED}",
        applies=_STORED,
        scenario="kill-between-checkpoints",
        convicted_by=("V24",),
    ),
    Stranger(
        name="believes-failed-writes",
        about="a file that could not be written is taken for written, and acknowledged",
        component="checkpoint store",
        breaks="a completed checkpoint can be restored",
        variant=Variant(store=believing_writes),
        where=f"{_COORDINATED}; the store fails",
        applies=both(store_is_used, store_fails),
        scenario="kill-while-store-fails",
        convicted_by=("V24",),
    ),
    Stranger(
        name="unreadable-starts-anew",
        about="if the newest checkpoint cannot be read, the attempt begins without one",
        component="checkpoint store",
        breaks="a restart resumes from the newest readable completed checkpoint",
        variant=Variant(store=starting_anew),
        where=f"{_COORDINATED}; the store fails; {_RESTORED}",
        applies=both(_STORED, store_fails),
        scenario="newest-missing-two-phase",
        convicted_by=("V15", "V16", "V24"),
    ),
    Stranger(
        name="falls-back-once",
        about="if the two newest checkpoints cannot be read, the attempt begins without one",
        component="checkpoint store",
        breaks="a restart resumes from the newest readable completed checkpoint",
        variant=Variant(store=falling_back_once),
        where=f"{_COORDINATED}; the store fails; {_RESTORED}",
        applies=both(_STORED, store_fails),
        scenario="two-newest-missing",
        convicted_by=("V11", "V15"),
    ),
    Stranger(
        name="retires-one-too-many",
        about="of the three checkpoints that are kept the oldest is retired",
        component="coordinator",
        breaks="a checkpoint that is kept may be restored",
        variant=Variant(coordinator=retiring_at_once),
        where=_COORDINATED,
        applies=store_is_used,
        scenario="two-newest-missing",
        convicted_by=("V11",),
    ),
    Stranger(
        name="restores-oldest-kept",
        about="the oldest of the checkpoints that are kept is restored",
        component="checkpoint store",
        breaks="a restart resumes from the newest readable completed checkpoint",
        variant=Variant(store=restoring_oldest),
        where=f"{_COORDINATED}; {_RESTORED}",
        applies=_STORED,
        convicted_by=("V16", "V24"),
    ),
    Stranger(
        name="restores-uncompleted",
        about="the newest file of the store is restored, whether or not its checkpoint is complete",
        component="checkpoint store",
        breaks="only completed checkpoints are restored",
        variant=Variant(store=restoring_newest_file),
        where=f"{_COORDINATED}; {_RESTORED}",
        applies=_STORED,
        convicted_by=("V11", "V12"),
    ),
    Stranger(
        name="file-without-attempt",
        about="the files of two attempts for one checkpoint have one name",
        component="checkpoint store",
        breaks="a restart reads the part that was acknowledged",
        variant=Variant(store=one_file_a_checkpoint),
        where=f"{_COORDINATED}; {_RESTORED}",
        applies=_STORED,
        scenario="zombie-writes-file",
        convicted_by=("V6", "V8", "V11"),
    ),
    Stranger(
        name="restores-below-committed",
        about="a checkpoint older than what is committed is restored, and its outputs are written twice",
        component="checkpoint store",
        breaks="a row is visible once",
        variant=Variant(store=below_committed),
        where=f"a two-phase sink; the store fails; {_RESTORED}",
        applies=both(sink_is("two-phase"), is_restored, store_fails),
        levels=SIM_AND_LIVE,
        scenario="newest-missing-two-phase",
        settings=(
            "faults.gone.when={phase: commit.post, hit: 4}",
            "faults.dies.when={phase: result, hit: 265}",
        ),
        convicted_by=("V15", "V16", "V24"),
    ),
)
