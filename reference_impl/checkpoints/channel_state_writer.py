"""Collects the elements that a barrier overtook, by checkpoint and channel, into handles.

Answers to Flink's `ChannelStateWriter` and `ChannelStateWriteRequestDispatcher`, and to the handle that they write,
`InputChannelStateHandle`. Invariant: a handle is a frozen plain value with the
elements in their order in the channel; a channel without captured elements gets no handle (C10).
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from reference_impl.checkpoint_events import CheckpointException, CheckpointFailureReason, CheckpointOptions
from reference_impl.checkpoints.channels import InputChannelInfo
from reference_impl.elements import OperatorInput
from reference_impl.errors import WrongState


@dataclass(frozen=True, slots=True, kw_only=True)
class InputChannelStateHandle:
    """The captured elements of an input channel."""

    info: InputChannelInfo
    elements: tuple[OperatorInput, ...]


InputState = tuple[InputChannelStateHandle, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelStateWriteResult:
    """A future for the captured elements; its result is None if nothing was captured (C10)."""

    input_channel_state: Future[InputState | None] = field(default_factory=Future)

    @property
    def is_done(self) -> bool:
        return self.input_channel_state.done()

    def fail(self, cause: BaseException) -> None:
        """Fail the future if it has not ended."""
        if not self.input_channel_state.done():
            self.input_channel_state.set_exception(cause)


@dataclass(slots=True, kw_only=True)
class _Writing:
    """A checkpoint whose in-flight data are being collected. Mutable."""

    result: ChannelStateWriteResult = field(default_factory=ChannelStateWriteResult)
    inputs: dict[InputChannelInfo, list[OperatorInput]] = field(default_factory=dict)


class ChannelStateWriter:
    """Collects the in-flight data around one task, for one checkpoint at a time. Mutable; used on the task's thread.

    Answers to Flink's `ChannelStateWriter` and `ChannelStateWriteRequestDispatcher`. Invariant: each result that was
    started ends, successfully or not (FLINK-28474), and data captured for one checkpoint never enter the result of
    another (FLINK-29730).

    Ids rise. A newer checkpoint fails the older one that is still open, as subsumed. Data for a checkpoint that has
    ended are dropped; an abort may come before the start (FLINK-17218, FLINK-17869).
    """

    def __init__(self) -> None:
        self._writing: dict[int, _Writing] = {}
        """Results that were not fetched yet, in the order of ids."""
        self._open: tuple[int, _Writing] | None = None
        """The checkpoint for which data are accepted, whether or not its result was fetched."""
        self._last_started = -1
        self._aborted_early: set[int] = set()
        """Checkpoints aborted before their start; forgotten when a later one starts."""
        self._closed: BaseException | None = None

    def start(self, checkpoint_id: int, options: CheckpointOptions) -> None:
        """Begin collecting; an error for a checkpoint that captures no in-flight data (C29, FLINK-18136)."""
        if not options.needs_channel_state:
            raise ValueError(
                f"checkpoint {checkpoint_id} ({options.snapshot_type.value}, {options.alignment.value}) captures "
                "no in-flight data (C29); call start only if options.needs_channel_state"
            )
        if checkpoint_id <= self._last_started:
            raise WrongState(
                f"in-flight data of checkpoint {checkpoint_id} cannot be started after those of "
                f"{self._last_started}; start checkpoints in rising order"
            )
        self._last_started = checkpoint_id
        if self._open is not None:
            number, older = self._open
            detail = f"checkpoint {number} was overtaken by {checkpoint_id}"
            self._end(
                older, CheckpointException(CheckpointFailureReason.CHECKPOINT_DECLINED_SUBSUMED, detail)
            )
        writing = _Writing()
        self._writing[checkpoint_id] = writing
        self._open = checkpoint_id, writing
        if self._closed is not None:
            self._end(writing, self._closed)
        elif checkpoint_id in self._aborted_early:
            detail = "aborted before it began"
            self._end(writing, CheckpointException(CheckpointFailureReason.CHECKPOINT_DECLINED, detail))
        self._aborted_early = {number for number in self._aborted_early if number > checkpoint_id}

    def add_input_data(
        self,
        checkpoint_id: int,
        info: InputChannelInfo,
        start_sequence_number: int,
        elements: Sequence[OperatorInput],
    ) -> None:
        """Add elements that were in flight in `info` before the barrier.

        They arrive in order; the number is not used.
        """
        writing = self._writing_of(checkpoint_id)
        if writing is None or writing.result.input_channel_state.done():
            return
        writing.inputs.setdefault(info, []).extend(elements)

    def finish_input(self, checkpoint_id: int) -> None:
        """All barriers have come: no more input will be captured."""
        writing = self._writing_of(checkpoint_id)
        if writing is not None and not writing.result.input_channel_state.done():
            handles = (
                InputChannelStateHandle(info=info, elements=tuple(writing.inputs[info]))
                for info in sorted(writing.inputs)
            )
            writing.result.input_channel_state.set_result(tuple(handles) or None)

    def abort(self, checkpoint_id: int, cause: BaseException, *, cleanup: bool) -> None:
        """Fail the checkpoint, started or not; with `cleanup`, drop a result that nobody will fetch."""
        if checkpoint_id > self._last_started:
            self._aborted_early.add(checkpoint_id)
        if self._open is not None and self._open[0] == checkpoint_id:
            self._end(self._open[1], cause)
        if checkpoint_id in self._writing:
            self._end(self._writing[checkpoint_id], cause)
        if cleanup:
            self._writing.pop(checkpoint_id, None)

    def get_and_remove_write_result(self, checkpoint_id: int) -> ChannelStateWriteResult:
        """Return the future for this checkpoint; can be called once."""
        writing = self._writing.pop(checkpoint_id, None)
        if writing is None:
            raise WrongState(
                f"no in-flight data are collected for checkpoint {checkpoint_id}; start it first, and fetch it once"
            )
        return writing.result

    def close(self) -> None:
        """Fail all open results, and those started later."""
        self._closed = CheckpointException(CheckpointFailureReason.CHECKPOINT_DECLINED_TASK_CLOSING)
        for writing in self._writing.values():
            self._end(writing, self._closed)
        if self._open is not None:
            self._end(self._open[1], self._closed)

    def _writing_of(self, checkpoint_id: int) -> _Writing | None:
        """None if the checkpoint has ended; an error if it never started."""
        if self._open is not None and self._open[0] == checkpoint_id:
            return self._open[1]
        if checkpoint_id > self._last_started and checkpoint_id not in self._aborted_early:
            raise WrongState(
                f"in-flight data of checkpoint {checkpoint_id} came before its start; call start first"
            )
        return None

    def _end(self, writing: _Writing, cause: BaseException) -> None:
        writing.result.fail(cause)
        writing.inputs.clear()
