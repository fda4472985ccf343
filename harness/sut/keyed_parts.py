"""The parts of a keyed task that a planted defect may replace; the default of each is the correct part.

Answers to mutation testing, like `harness.sut.variant`, which contains them. Invariant: a part draws no random number,
so equal seeds give equal runs.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Protocol

import msgspec

from reference_impl.checkpoints.barrier_handler import (
    CheckpointableInput,
    CheckpointableTask,
    CheckpointBarrierHandler,
    InitInputCheckpoint,
)
from reference_impl.checkpoints.channels import InputChannel
from reference_impl.checkpoints.single_barrier_handler import SingleCheckpointBarrierHandler
from reference_impl.checkpoints.watermark_valve import StatusWatermarkValve
from reference_impl.mailbox.timers import Timers
from reference_impl.state.handles import KeyedStateHandle
from reference_impl.state.internal_timer_services import InternalTimerServices
from reference_impl.state.internal_timers import KeyContext, TimersHandle
from reference_impl.state.keyed_state_backend import KeyedStateBackend
from reference_impl.state.ttl_state_factory import CreateWithTtl, create_state_with_ttl


class BuildBarrierHandler(Protocol):
    """Builds the barrier handler of the inputs."""

    def __call__(
        self, *, task: CheckpointableTask, inputs: Sequence[CheckpointableInput], timers: Timers
    ) -> CheckpointBarrierHandler:
        """Builds it for one task."""


class BuildAlternatingHandler(Protocol):
    """Builds the barrier handler of inputs whose barriers may overtake; `checkpoints` hears when one begins."""

    def __call__(
        self,
        *,
        task: CheckpointableTask,
        inputs: Sequence[CheckpointableInput],
        timers: Timers,
        checkpoints: InitInputCheckpoint,
    ) -> CheckpointBarrierHandler:
        """Builds it for one task."""


class Keeping:
    """Encodes the state of one attempt for the sink and decodes it on restore. Mutable."""

    def text(self, finish: Callable[[], KeptState]) -> str:
        """The stored text of a snapshot; `finish` runs its asynchronous part."""
        return encoded(finish())

    def state(self, text: str) -> KeptState:
        return decoded(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedParts:
    """The replaceable parts of one keyed task."""

    barrier_handler: BuildBarrierHandler = SingleCheckpointBarrierHandler.aligned
    """By default aligned: a barrier blocks its input until all barriers have arrived (C22)."""
    alternating: BuildAlternatingHandler = SingleCheckpointBarrierHandler.alternating
    """The same for a task with an alignment timeout: its barriers may overtake (C26)."""
    channel: Callable[..., InputChannel] = InputChannel
    """Builds an input channel of such a task."""
    valve: Callable[[int], StatusWatermarkValve] = StatusWatermarkValve
    """Builds the watermark valve for a number of inputs."""
    backend: type[KeyedStateBackend] = KeyedStateBackend
    timer_services: type[InternalTimerServices] = InternalTimerServices
    create_with_ttl: CreateWithTtl = create_state_with_ttl
    keeping: type[Keeping] = Keeping
    timers_key_context: Callable[[KeyContext], KeyContext] = lambda context: context
    """The key context whose current key a timer sets before it fires."""


HONEST_PARTS = KeyedParts()


_CHECKSUM_LENGTH = 16


class KeptStateAltered(Exception):
    """The stored state was altered or truncated."""


class KeptState(msgspec.Struct, frozen=True, kw_only=True):
    """Keyed state and timers of a snapshot; None: empty (C10)."""

    keyed: KeyedStateHandle | None
    timers: TimersHandle | None


def encoded(state: KeptState) -> str:
    """Encodes `state` as text with a checksum."""
    body = msgspec.msgpack.encode(state)
    return f"{_checksum(body)}:{b64encode(body).decode('ascii')}"


def decoded(text: str) -> KeptState:
    """Decodes what `encoded` wrote. Raises `KeptStateAltered`."""
    checksum, _, rest = text.partition(":")
    try:
        body = b64decode(rest, validate=True)
    except ValueError as error:
        message = f"the state of the keyed operator is torn: its text is no base64 ({error})"
        raise KeptStateAltered(message) from error
    if _checksum(body) != checksum:
        message = f"the state of the keyed operator is torn or altered: its checksum is not {checksum}"
        raise KeptStateAltered(message)
    return msgspec.msgpack.decode(body, type=KeptState)


def _checksum(body: bytes) -> str:
    return sha256(body).hexdigest()[:_CHECKSUM_LENGTH]
