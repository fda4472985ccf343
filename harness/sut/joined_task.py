"""A task behind ours with a second input: it tells of each of our results whether it is late there.

Answers to a `KeyedCoProcessFunction` behind an `AsyncWaitOperator`, whose event time is that of both inputs. A history
has no event for a status, so what the status changes must show in a value: after ours has fallen idle the other input
counts alone, and our results are late until we have caught up (W2, W3). Invariants: the other input says a step above
each watermark of ours, so that what is late depends on the order of our elements alone; its expected value, the stamp
`late` of `harness.scenario.workloads.sessions`, is computed without code of this task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from msgspec.structs import replace

from harness.scenario.workloads.lookups import Inputs, LookupSource
from harness.scenario.workloads.shape import MarkOfTime
from harness.sut.enrichment import Enriched
from reference_impl.checkpoints.watermark_valve import StatusWatermarkValve
from reference_impl.elements import OperatorInput, Record, Watermark, WatermarkStatus

_OURS, _OTHER = 0, 1


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinedTask:
    """A `harness.engine.subtask.Behind` of one subtask."""

    step_ms: int
    """The watermarks of the other input are multiples of it."""
    elements: LookupSource
    inputs: Inputs

    def in_front_of(
        self, emit: Callable[[OperatorInput], None], *, replayed: Sequence[object], position: int
    ) -> Callable[[OperatorInput], None]:
        """Marks results and passes all elements on; knows the watermarks that left before the checkpoint."""
        attempt = _Attempt(self.step_ms, emit)
        for element in self._left_before(replayed, position):
            attempt.hear(element)
        return attempt.emit

    def _left_before(self, replayed: Sequence[Any], position: int) -> Iterator[Watermark | WatermarkStatus]:
        """What stands in front of the first element that is replayed, behind the state of the keyed operator."""
        first = replayed[1] if len(replayed) > 1 else None
        end = position if first is None else first.position
        for place in range(end):
            yield from self._at(place)
        if first is not None:
            yield from takewhile(lambda element: element != first, self._at(end))

    def _at(self, position: int) -> Iterator[Watermark | WatermarkStatus]:
        """What comes to the lookups at a watermark of the source."""
        match self.elements[position]:
            case MarkOfTime(timestamp=mark):
                yield Watermark(timestamp=self.inputs.combined(mark), position=position)
                if self.inputs.all_fall_idle(position):
                    yield WatermarkStatus(idle=True, position=position)
                    yield WatermarkStatus(idle=False, position=position)


class _Attempt:
    """The task behind, in one attempt. Mutable: its event time."""

    def __init__(self, step_ms: int, emit: Callable[[OperatorInput], None]) -> None:
        self._step_ms = step_ms
        self._emit = emit
        self._valve = StatusWatermarkValve(2)

    def emit(self, element: OperatorInput) -> None:
        """Marks a result, and passes on whatever leaves our last operator."""
        if isinstance(element, Record) and isinstance(element.value, Enriched):
            reached, timestamp = self._valve.last_output_watermark, element.timestamp
            late = reached is not None and timestamp is not None and timestamp <= reached
            result = element.value
            element = replace(element, value=replace(result, value={**result.value, "late": late}))
        elif isinstance(element, Watermark | WatermarkStatus):
            self.hear(element)
        self._emit(element)

    def hear(self, element: Watermark | WatermarkStatus) -> None:
        """Combines our watermark or status with the watermark of the other input."""
        if isinstance(element, WatermarkStatus):
            self._valve.input_watermark_status(element, _OURS, _SILENT)
            return
        self._valve.input_watermark(element, _OURS, _SILENT)
        step = (element.timestamp // self._step_ms + 1) * self._step_ms
        self._valve.input_watermark(Watermark(timestamp=step), _OTHER, _SILENT)


class _Silent:
    """Hears the combined watermarks, of which the valve knows the last."""

    def emit(self, element: Watermark | WatermarkStatus, /) -> None:
        """Does nothing."""


_SILENT = _Silent()
