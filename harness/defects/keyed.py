"""Defects of a task with state by key, timers and two inputs.

Answers to the bugs that such a task had in Flink. Each shows in a scenario of the catalogue with a `task:`, where every
later record of a key tells what became of its state: so a loss is a wrong value, V8. Invariant: but for what its name
says the task is the honest one, and the scenario that an entry names, names the defect.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from harness.defects.defect import EVERY_LEVEL, Defect
from harness.defects.where import NEVER
from harness.sut.keyed_parts import Keeping, KeptState, KeyedParts
from harness.sut.session_counter import BY_INPUT
from harness.sut.variant import Variant
from reference_impl.checkpoint_events import (
    CheckpointBarrier,
    CheckpointMetaData,
    CheckpointMetrics,
    CheckpointOptions,
)
from reference_impl.checkpoints.channels import InputChannelInfo
from reference_impl.checkpoints.single_barrier_handler import SingleCheckpointBarrierHandler
from reference_impl.checkpoints.watermark_valve import StatusWatermarkValve
from reference_impl.elements import Watermark
from reference_impl.mailbox.timers import Timers
from reference_impl.state.handles import KeyedStateHandle
from reference_impl.state.internal_timer_services import InternalTimerServices
from reference_impl.state.internal_timers import InternalTimer, InternalTimerService, KeyContext
from reference_impl.state.keyed_state_backend import KeyedStateBackend
from reference_impl.state.snapshot_future import SnapshotFuture

__all__ = ["OF_KEYED_TASKS", "SharingBackend"]


class _OmitsKeyedState(Keeping):
    """Timers are saved, values are not."""

    def text(self, finish: Callable[[], KeptState]) -> str:
        return super().text(lambda: replace(finish(), keyed=None))


class _LosesTimers(Keeping):
    """Values come back, timers do not."""

    def state(self, text: str) -> KeptState:
        return replace(super().state(text), timers=None)


class _LosesLastKeyGroup(Keeping):
    """A range of key groups is taken for one without its end."""

    def state(self, text: str) -> KeptState:
        kept = super().state(text)
        if kept.keyed is None:
            return kept
        end = kept.keyed.key_group_range.end
        groups = {group: blocks for group, blocks in kept.keyed.key_groups.items() if group != end}
        return replace(kept, keyed=replace(kept.keyed, key_groups=groups))


class _RestoresOneOfTwo(Keeping):
    """Of two states that are registered, only the first one is read back."""

    def state(self, text: str) -> KeptState:
        kept = super().state(text)
        if kept.keyed is None:
            return kept
        states = {name: meta for name, meta in kept.keyed.states.items() if name != BY_INPUT.name}
        groups = {
            group: {name: blocks for name, blocks in written.items() if name in states}
            for group, written in kept.keyed.key_groups.items()
        }
        return replace(kept, keyed=replace(kept.keyed, states=states, key_groups=groups))


class _OneCheckpointOld(Keeping):
    """What is saved is what should have been saved the last time. Mutable."""

    def __init__(self) -> None:
        self._before: KeptState | None = None

    def text(self, finish: Callable[[], KeptState]) -> str:
        present = finish()
        before, self._before = self._before or present, present
        return super().text(lambda: self._mixed(present, before))

    def _mixed(self, present: KeptState, before: KeptState) -> KeptState:
        return replace(present, keyed=before.keyed)


class _TimersOneCheckpointOld(_OneCheckpointOld):
    """Values are of now, timers of before: those that have fired since will fire again."""

    def _mixed(self, present: KeptState, before: KeptState) -> KeptState:
        return replace(present, timers=before.timers)


class SharingBackend(KeyedStateBackend):
    """Its snapshots hold the tables that the task goes on writing to, and read them in their asynchronous part."""

    def snapshot(
        self, checkpoint_id: int, timestamp: int = 0, options: CheckpointOptions | None = None
    ) -> SnapshotFuture[KeyedStateHandle | None]:
        """Nothing is copied now."""
        take = super().snapshot
        return SnapshotFuture.calling(lambda: _ended(take(checkpoint_id, timestamp, options)))

    def dispose(self) -> None:
        """Not while a snapshot holds the tables."""


def _ended(future: SnapshotFuture[Any]) -> Any:
    future.run()
    return future.result()


class _UndeletedTimers(InternalTimerService):
    """A timer that was deleted is still in the next snapshot. Mutable."""

    def __init__(self, *, timers: Timers, key_context: KeyContext) -> None:
        super().__init__(timers=timers, key_context=key_context)
        self._key_context = key_context
        self._deleted: dict[InternalTimer, None] = {}

    def delete_event_time_timer(self, namespace: Any, time: int) -> None:
        self._deleted[InternalTimer(time, self._key_context.current_key, namespace)] = None
        super().delete_event_time_timer(namespace, time)

    def event_time_timers(self) -> list[InternalTimer]:
        deleted, self._deleted = (
            [timer for timer in self._deleted if timer.timestamp > self.current_watermark],
            {},
        )
        return [*super().event_time_timers(), *deleted]


class _UndeletedTimerServices(InternalTimerServices):
    """Whose services keep what was deleted."""

    def _service(self, name: str) -> InternalTimerService:
        service = self._services.get(name)
        if service is None:
            service = _UndeletedTimers(timers=self._timers, key_context=self._key_context)
            self._services[name] = service
        return service


class _AnyKey:
    """A key context that a timer cannot set: it fires with whatever key the last record had."""

    def __init__(self, honest: KeyContext) -> None:
        self._honest = honest

    @property
    def current_key(self) -> Any:
        """That of the last record."""
        return self._honest.current_key

    def set_current_key(self, key: Any) -> None:
        """Nothing."""


class _HighestValve(StatusWatermarkValve):
    """Lets the highest watermark of all inputs out instead of the lowest. Mutable."""

    def __init__(self, inputs: int) -> None:
        super().__init__(inputs)
        self._highest: int | None = None

    def input_watermark(self, watermark: Watermark, channel_index: int, output: Any) -> None:
        """At once, if it is higher than all before it."""
        del channel_index
        if self._highest is None or watermark.timestamp > self._highest:
            self._highest = watermark.timestamp
            output.emit(watermark)


class _FirstBarrierHandler(SingleCheckpointBarrierHandler):
    """Takes the snapshot at the first barrier of a checkpoint, and lets the others pass. Mutable."""

    _latest = -1

    def process_barrier(
        self, barrier: CheckpointBarrier, channel: InputChannelInfo, *, is_rpc_triggered: bool = False
    ) -> None:
        """The first of its number is enough."""
        del is_rpc_triggered
        if barrier.checkpoint_id > self._latest:
            self._latest = barrier.checkpoint_id
            metadata = CheckpointMetaData(checkpoint_id=barrier.checkpoint_id, timestamp=barrier.timestamp)
            self._task.trigger_checkpoint_on_barrier(metadata, barrier.options, CheckpointMetrics())
        self._channels.resume_channel(channel)


def _keeping(kind: type[Keeping]) -> KeyedParts:
    return KeyedParts(keeping=kind)


OF_KEYED_TASKS = (
    Defect(
        number=26,
        name="min-watermark-lost",
        about="of several inputs the highest watermark counts, not the lowest",
        mirrors="FLINK-40517, FLINK-18934",
        convicted_by=("V8",),
        variant=Variant(keyed=KeyedParts(valve=_HighestValve)),
        where="`sessions-of-the-slower-input`",
        applies=NEVER,
        scenario="sessions-of-the-slower-input",
        levels=EVERY_LEVEL,
    ),
    Defect(
        number=None,
        name="snapshot-omits-keyed-state",
        about="a snapshot holds timers and elements, but no keyed state",
        mirrors="an operator whose backend nobody asks",
        convicted_by=("V8",),
        variant=Variant(keyed=_keeping(_OmitsKeyedState)),
        where="`sessions-at-snapshot`",
        applies=NEVER,
        scenario="sessions-at-snapshot",
        levels=EVERY_LEVEL,
    ),
    Defect(
        number=None,
        name="state-one-checkpoint-old",
        about="a checkpoint holds the keyed state of the one before it",
        mirrors="FLINK-26968, a copy with the wrong version",
        convicted_by=("V8",),
        variant=Variant(keyed=_keeping(_OneCheckpointOld)),
        where="`sessions-after-commit`",
        applies=NEVER,
        scenario="sessions-after-commit",
        levels=EVERY_LEVEL,
    ),
    Defect(
        number=None,
        name="restores-one-state-of-two",
        about="of two states of one operator one is read back, the other begins anew",
        mirrors="FLINK-17218, a state that is registered too late",
        convicted_by=("V8",),
        variant=Variant(keyed=_keeping(_RestoresOneOfTwo)),
        where="`sessions-crash-loop`",
        applies=NEVER,
        scenario="sessions-crash-loop",
        levels=EVERY_LEVEL,
    ),
    Defect(
        number=None,
        name="key-group-off-by-one",
        about="the last key group of a range is not restored",
        mirrors="a range that is taken for half open",
        convicted_by=("V8",),
        variant=Variant(keyed=_keeping(_LosesLastKeyGroup)),
        where="`sessions-idempotent`",
        applies=NEVER,
        scenario="sessions-idempotent",
        levels=EVERY_LEVEL,
    ),
    Defect(
        number=None,
        name="timers-lost-on-restore",
        about="timers are saved and not restored",
        mirrors="a session that never ends",
        convicted_by=("V8",),
        variant=Variant(keyed=_keeping(_LosesTimers)),
        where="`sessions-at-timer`",
        applies=NEVER,
        scenario="sessions-at-timer",
        levels=EVERY_LEVEL,
    ),
    Defect(
        number=None,
        name="timers-one-checkpoint-old",
        about="a checkpoint holds the timers of the one before it: those that have fired since fire again",
        mirrors="a timer that fires twice after a restore",
        convicted_by=("V8",),
        variant=Variant(keyed=_keeping(_TimersOneCheckpointOld)),
        where="`sessions-full-queue`",
        applies=NEVER,
        scenario="sessions-full-queue",
        levels=EVERY_LEVEL,
    ),
    Defect(
        number=None,
        name="snapshot-keeps-deleted-timers",
        about="a timer that was deleted is in the next snapshot, and fires once that is restored",
        mirrors="a deletion that only the heap hears of",
        convicted_by=("V8",),
        variant=Variant(keyed=KeyedParts(timer_services=_UndeletedTimerServices)),
        where="`sessions-in-restore`",
        applies=NEVER,
        scenario="sessions-in-restore",
        levels=EVERY_LEVEL,
    ),
    Defect(
        number=None,
        name="timer-of-another-key",
        about="a timer fires while the key of the last record is still the current one",
        mirrors="a key context that is set for records only",
        convicted_by=("V8",),
        variant=Variant(keyed=KeyedParts(timers_key_context=_AnyKey)),
        where="`sessions-calm`",
        applies=NEVER,
        scenario="sessions-calm",
        levels=EVERY_LEVEL,
    ),
    Defect(
        number=None,
        name="snapshot-at-first-barrier",
        about="the snapshot is taken at the first barrier of a checkpoint, before those of other inputs have come",
        mirrors="FLINK-24068, an alignment that does not wait",
        convicted_by=("V10",),
        variant=Variant(keyed=KeyedParts(barrier_handler=_FirstBarrierHandler.aligned)),
        where="`sessions-while-aligning`",
        applies=NEVER,
        scenario="sessions-while-aligning",
        levels=EVERY_LEVEL,
    ),
)
