"""The bench on which the barriers' tests stand: channels that a test fills, and a task that notes what it is told.

Invariant: nothing is read and no mail runs but what a test asks for; time stands still but for `advance`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Literal

from reference_impl.checkpoint_events import (
    AlignmentType,
    CancelCheckpointMarker,
    ChannelEvent,
    CheckpointBarrier,
    CheckpointException,
    CheckpointFailureReason,
    CheckpointMetaData,
    CheckpointMetrics,
    CheckpointOptions,
    EndOfData,
    EndOfPartition,
    SnapshotType,
)
from reference_impl.checkpoints.barrier_states import CheckpointBarrierHandler
from reference_impl.checkpoints.channels import (
    ChannelElement,
    ChannelStateWriter,
    ChannelStateWriteResult,
    InputChannel,
    InputChannelInfo,
    InputChannelStateHandle,
)
from reference_impl.checkpoints.input_gate import CheckpointedInputGate, InputGate
from reference_impl.checkpoints.single_barrier_handler import SingleCheckpointBarrierHandler
from reference_impl.elements import OperatorInput, Record
from reference_impl.mailbox.loops import VirtualLoop, virtual_loop
from reference_impl.mailbox.mailbox import Mailbox, MailboxExecutor
from reference_impl.mailbox.timers import Timers

HandlerKind = Literal["aligned", "alternating"]

SUBSUMED = CheckpointFailureReason.CHECKPOINT_DECLINED_SUBSUMED
CANCELLED = CheckpointFailureReason.CHECKPOINT_DECLINED_ON_CANCELLATION_BARRIER
ENDED = CheckpointFailureReason.CHECKPOINT_DECLINED_INPUT_END_OF_STREAM


def barrier(
    checkpoint_id: int,
    *,
    alignment: AlignmentType = AlignmentType.ALIGNED,
    timeout_ms: int | None = None,
    timestamp: int = 0,
    snapshot_type: SnapshotType = SnapshotType.CHECKPOINT,
) -> CheckpointBarrier:
    """Aligned for good, unless a test says otherwise."""
    options = CheckpointOptions(
        snapshot_type=snapshot_type, alignment=alignment, aligned_timeout_ms=timeout_ms
    )
    return CheckpointBarrier(checkpoint_id=checkpoint_id, timestamp=timestamp, options=options)


def unaligned(checkpoint_id: int, *, timestamp: int = 0) -> CheckpointBarrier:
    """One that overtakes."""
    return barrier(checkpoint_id, alignment=AlignmentType.UNALIGNED, timestamp=timestamp)


def cancel_marker(checkpoint_id: int) -> CancelCheckpointMarker:
    """No barrier will come."""
    return CancelCheckpointMarker(checkpoint_id=checkpoint_id)


def end() -> tuple[ChannelElement, ChannelElement]:
    """Of a channel that is drained."""
    return EndOfData(), EndOfPartition()


class NotingTask:
    """A task whose state is what it has read, and its checkpoints. Mutable."""

    def __init__(self) -> None:
        self.handler: CheckpointBarrierHandler | None = None
        self.processed: list[Any] = []
        """The values of the records, in order: the operator's state."""
        self.triggered: list[int] = []
        self.aborted: list[tuple[int, CheckpointFailureReason]] = []
        self.options: dict[int, CheckpointOptions] = {}
        self.metrics: dict[int, CheckpointMetrics] = {}
        self.state: dict[int, tuple[Any, ...]] = {}
        """What each snapshot holds."""
        self.writer = ChannelStateWriter()
        self.results: dict[int, ChannelStateWriteResult] = {}

    def init_input_checkpoint(self, checkpoint_id: int, options: CheckpointOptions) -> None:
        """As `SubtaskCheckpointCoordinator` does it."""
        if options.needs_channel_state:
            self.writer.start(checkpoint_id, options)
            if not options.is_unaligned:
                self.writer.finish_input(checkpoint_id)
                return
            assert self.handler is not None, "a task hears of checkpoints from its handler"
            received = self.handler.all_barriers_received_future(checkpoint_id)
            received.add_done_callback(lambda future: self._finish_input(checkpoint_id, future))

    def _finish_input(self, checkpoint_id: int, received: Future[None]) -> None:
        error = received.exception()
        if error is None:
            self.writer.finish_input(checkpoint_id)
        else:
            self.writer.abort(checkpoint_id, error, cleanup=False)

    def trigger_checkpoint_on_barrier(
        self, metadata: CheckpointMetaData, options: CheckpointOptions, metrics: CheckpointMetrics
    ) -> None:
        """Take a snapshot of what was read."""
        checkpoint_id = metadata.checkpoint_id
        self.triggered.append(checkpoint_id)
        self.options[checkpoint_id] = options
        self.metrics[checkpoint_id] = metrics
        self.state[checkpoint_id] = tuple(self.processed)
        if options.needs_channel_state:
            self.results[checkpoint_id] = self.writer.get_and_remove_write_result(checkpoint_id)

    def abort_checkpoint_on_barrier(self, checkpoint_id: int, exception: CheckpointException) -> None:
        """Note it, and give up what is written for it."""
        self.aborted.append((checkpoint_id, exception.reason))
        self.writer.abort(checkpoint_id, exception, cleanup=True)

    def in_flight(self, checkpoint_id: int) -> Sequence[InputChannelStateHandle]:
        """What is in flight and belongs to that checkpoint, by channel; none where nothing is captured."""
        result = self.results.get(checkpoint_id)
        return () if result is None else result.input_channel_state.result(timeout=0) or ()

    def captured(self, checkpoint_id: int) -> list[Any]:
        """The values of the records among it."""
        elements = [element for handle in self.in_flight(checkpoint_id) for element in handle.elements]
        return [element.value for element in elements if isinstance(element, Record)]


class Bench:
    """One gate or several in front of a task. Mutable."""

    def __init__(
        self,
        loop: VirtualLoop,
        *,
        kind: HandlerKind = "alternating",
        channels: int = 2,
        gates: int = 1,
        count_ended: bool = True,
        handler: Callable[..., CheckpointBarrierHandler] | None = None,
        channel_type: type[InputChannel] = InputChannel,
    ) -> None:
        self.loop = loop
        self._wanted: InputChannelInfo | None = None
        self.task = NotingTask()
        self.mailbox = Mailbox(loop=loop)
        self.executor = MailboxExecutor(self.mailbox, 0)
        self.timers = Timers(loop, self.executor)
        self.channels = [
            channel_type(InputChannelInfo(gate, index), writer=self.task.writer)
            for gate in range(gates)
            for index in range(channels)
        ]
        """Of all gates, the first gate's first."""
        self.inputs = [
            InputGate(self.channels[gate * channels : (gate + 1) * channels], choose=self._choose)
            for gate in range(gates)
        ]
        self.handler = (handler or _HANDLERS[kind])(
            task=self.task,
            inputs=self.inputs,
            timers=self.timers,
            **({"checkpoints": self.task} if kind == "alternating" else {}),
            enable_checkpoints_after_tasks_finish=count_ended,
        )
        self.task.handler = self.handler
        self.gates = [CheckpointedInputGate(gate, self.handler, self.executor) for gate in self.inputs]

    @property
    def blocked(self) -> list[int]:
        """The channels that give out nothing."""
        return [index for index, channel in enumerate(self.channels) if channel.is_blocked]

    def put(self, channel: int, *elements: Any) -> None:
        """Elements and events as they are; any other value as a record."""
        for element in elements:
            is_value = not isinstance(element, OperatorInput | ChannelEvent)
            self.channels[channel].put(Record(value=element) if is_value else element)

    def read(self, channel: int) -> ChannelElement | None:
        """What that channel gives, after all priority events."""
        wanted = self.channels[channel]
        self._wanted = wanted.info
        for gate in self.gates:
            while gate.input_gate.is_priority_event_available:
                gate.poll_next()
        return self._polled(self.gates[wanted.info.gate_idx]) if wanted.is_readable else None

    def read_next(self) -> ChannelElement | None:
        """What the gates give."""
        for gate in self.gates:
            element = self._polled(gate)
            if element is not None:
                return element
        return None

    def read_all(self) -> None:
        """Until nothing can be read."""
        while self.read_next() is not None:
            pass

    def _polled(self, gate: CheckpointedInputGate) -> ChannelElement | None:
        polled = gate.poll_next()
        if polled is None:
            return None
        if isinstance(polled[1], Record):
            self.task.processed.append(polled[1].value)
        return polled[1]

    def _choose(self, readable: Sequence[InputChannel]) -> InputChannel:
        return next((channel for channel in readable if channel.info == self._wanted), readable[0])

    def run_mail(self) -> None:
        """All there is."""
        while self.executor.try_yield():
            pass

    def advance(self, to_ms: int) -> None:
        """Let it be that late, and run the mail of what falls due."""
        while (due_ms := self.loop.next_due_ms()) is not None and due_ms <= to_ms:
            self.loop.advance(due_ms)
            self.loop.run_ready()
            self.run_mail()
        self.loop.advance(to_ms)
        self.run_mail()


_HANDLERS: dict[HandlerKind, Callable[..., CheckpointBarrierHandler]] = {
    "aligned": SingleCheckpointBarrierHandler.aligned,
    "alternating": SingleCheckpointBarrierHandler.alternating,
}


@contextmanager
def open_bench(**how: Any) -> Iterator[Bench]:
    """A bench in virtual time, at 0 ms."""
    with virtual_loop() as loop:
        yield Bench(loop, **how)
