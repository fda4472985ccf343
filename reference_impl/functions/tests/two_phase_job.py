"""A job of a source, a two-phase sink and a coordinator, that dies where it is told and is restored."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from reference_impl.checkpoint_events import CheckpointOptions
from reference_impl.checkpoints.state_handler import StateInitializationContext, StateSnapshotContext
from reference_impl.functions.sink import SinkContext, TwoPhaseCommitSinkFunction
from reference_impl.functions.tests.transaction_store import Crash
from reference_impl.state.operator_state import OperatorStateBackend
from reference_impl.state.snapshots import OperatorStateHandle

CONTEXT = SinkContext(current_processing_time=0, current_watermark=0, timestamp=None)
STEPS = (
    "record",
    "record",
    "barrier",
    "complete oldest",
    "complete newest",
    "notify",
    "lose",
    "repeat",
    "abort",
    "die",
)
"""What may happen, and may happen again; anything that has no object at the moment does not happen."""

BuildSink = Callable[[], TwoPhaseCommitSinkFunction[int]]
"""Makes a sink over the store, at the start and after each death."""


class Store(Protocol):
    """What the job has to know of whatever its sink writes to."""

    @property
    def published(self) -> list[int]:
        """What is visible, in its order."""

    def point(self) -> None:
        """A moment at which the process may die."""

    def writer_died(self) -> None:
        """It has."""


def initialized(
    sink: TwoPhaseCommitSinkFunction[int], handle: OperatorStateHandle | None, checkpoint_id: int | None
) -> OperatorStateBackend:
    """Initialise `sink` from what checkpoint `checkpoint_id` held, if any."""
    backend = OperatorStateBackend(operator="sink")
    backend.restore(handle)
    sink.initialize_state(
        StateInitializationContext(
            operator_id="sink", restored_checkpoint_id=checkpoint_id, operator_state_store=backend
        )
    )
    return backend


def snapshot_of(
    sink: TwoPhaseCommitSinkFunction[int], backend: OperatorStateBackend, checkpoint_id: int
) -> OperatorStateHandle | None:
    """Both parts of the sink's snapshot."""
    sink.snapshot_state(StateSnapshotContext(operator_id="sink", checkpoint_id=checkpoint_id))
    future = backend.snapshot(checkpoint_id, 0, CheckpointOptions())
    future.run()
    return future.result()


@dataclass(frozen=True, slots=True, kw_only=True)
class _Checkpoint:
    id: int | None
    position: int
    handle: OperatorStateHandle | None


class TwoPhaseJob:
    """Mutable. After each step the claim of C43 is asserted."""

    def __init__(self, store: Store, build: BuildSink) -> None:
        self.store = store
        self._build = build
        self._position = 0
        self._last_id = 0
        self._triggered: list[_Checkpoint] = []
        self._completed = _Checkpoint(id=None, position=0, handle=None)
        self._to_notify: list[int] = []
        self._survive(self._restore)

    def run(self, steps: Sequence[str]) -> None:
        """The steps; then, without being killed on the way more often than was said, to the end of the input."""
        for step in steps:
            self._survive(lambda step=step: self._step(step))  # type: ignore[misc]  # bound at once
        while not self._survive(self._end):
            pass
        self._check(exactly=True)

    def _survive(self, act: Callable[[], None]) -> bool:
        """Do it; if it dies, restore, however often that dies too. Whether it lived."""
        try:
            act()
        except Crash:
            self.store.writer_died()
            self._triggered.clear()
            self._to_notify.clear()
            while not self._survive(self._restore):
                pass
            return False
        self._check(exactly=False)
        return True

    def _restore(self) -> None:
        self._sink = self._build()
        self._backend = initialized(self._sink, self._completed.handle, self._completed.id)
        self._position = self._completed.position
        self._check(exactly=True)

    def _check(self, *, exactly: bool) -> None:
        """The visible are the first so many records, each once, none beyond the last completed checkpoint (C43)."""
        published, position = self.store.published, self._completed.position
        assert published == list(range(len(published))), f"not a prefix: {published}"
        assert len(published) <= position, f"{published} is visible, and only {position} are in a checkpoint"
        if exactly:
            assert len(published) == position, f"{position} are in the checkpoint, and visible is {published}"

    def _step(self, step: str) -> None:
        self.store.point()
        match step:
            case "record":
                self._sink.invoke(self._position, CONTEXT)
                self._position += 1
            case "barrier":
                self._take()
            case "complete oldest" | "complete newest" if self._triggered:
                self._complete(0 if step == "complete oldest" else -1)
            case "notify" | "repeat" if self._to_notify:
                self._sink.notify_checkpoint_complete(self._to_notify[0])
                if step == "notify":
                    del self._to_notify[0]
            case "lose" if self._to_notify:
                del self._to_notify[0]
            case "abort" if self._triggered:
                aborted = self._triggered.pop(0)
                assert aborted.id is not None
                self._sink.notify_checkpoint_aborted(aborted.id)
            case "die":
                raise Crash(step)
            case _:
                pass

    def _take(self) -> None:
        self._last_id += 1
        position = self._position
        handle = snapshot_of(self._sink, self._backend, self._last_id)
        self.store.point()
        self._triggered.append(_Checkpoint(id=self._last_id, position=position, handle=handle))

    def _complete(self, index: int) -> None:
        """It becomes durable, and those before it are subsumed."""
        completed = self._triggered[index]
        assert completed.id is not None
        self._triggered = [later for later in self._triggered if (later.id or 0) > completed.id]
        self._completed = completed
        self._to_notify.append(completed.id)
        self.store.point()

    def _end(self) -> None:
        """The last checkpoint, taken after the end of the input (C18)."""
        self._step("record")
        self._sink.finish()
        for step in ("barrier", "complete newest", *len(self._to_notify) * ["notify"], "notify"):
            self._step(step)
        self._sink.close()
