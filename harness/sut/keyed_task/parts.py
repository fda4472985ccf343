"""The parts of a keyed task that a planted defect may replace; the default of each is the honest one.

Answers to mutation testing, as `harness.sut.variant`, of which these parts are one.
Invariant: a part changes what is under test and never draws, so equal seeds stay equal runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from harness.sut.keyed_task.kept_state import KeptState, decoded, encoded
from reference_impl.checkpoints.barrier_handler import (
    CheckpointableInput,
    CheckpointableTask,
    CheckpointBarrierHandler,
)
from reference_impl.checkpoints.single_barrier_handler import SingleCheckpointBarrierHandler
from reference_impl.checkpoints.watermark_valve import StatusWatermarkValve
from reference_impl.mailbox.timers import Timers
from reference_impl.state.internal_timer_services import InternalTimerServices
from reference_impl.state.internal_timers import KeyContext
from reference_impl.state.keyed_state_backend import KeyedStateBackend

__all__ = ["HONEST_PARTS", "BuildBarrierHandler", "Keeping", "KeyedParts"]


class BuildBarrierHandler(Protocol):
    """Builds who brings the barriers of the inputs together."""

    def __call__(
        self, *, task: CheckpointableTask, inputs: Sequence[CheckpointableInput], timers: Timers
    ) -> CheckpointBarrierHandler:
        """For one task."""


class Keeping:
    """What becomes of the state between the snapshot and the sink, and on the way back; of one attempt. Mutable."""

    def text(self, finish: Callable[[], KeptState]) -> str:
        """What is stored of a snapshot; `finish` is its asynchronous part."""
        return encoded(finish())

    def state(self, text: str) -> KeptState:
        """What was kept."""
        return decoded(text)


def _same_context(context: KeyContext) -> KeyContext:
    return context


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedParts:
    """Of one keyed task."""

    barrier_handler: BuildBarrierHandler = SingleCheckpointBarrierHandler.aligned
    """A barrier blocks its input until all have come (C22)."""
    valve: Callable[[int], StatusWatermarkValve] = StatusWatermarkValve
    """Of so many inputs."""
    backend: type[KeyedStateBackend] = KeyedStateBackend
    timer_services: type[InternalTimerServices] = InternalTimerServices
    keeping: type[Keeping] = Keeping
    timers_key_context: Callable[[KeyContext], KeyContext] = _same_context
    """Whose current key a timer sets before it fires."""


HONEST_PARTS = KeyedParts()
