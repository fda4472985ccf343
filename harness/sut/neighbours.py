"""The neighbours of our operator: an asynchronous one in front of it, and a task with two inputs behind it.

Answers to two chained `AsyncWaitOperator`s. Invariants: it emits in order, one element for each that it takes, so what
it holds is what the source read last; the history is that of the lookups, which take an element when it leaves here.

Answers to a `KeyedCoProcessFunction` behind an `AsyncWaitOperator`, whose event time is that of both inputs. A history
has no event for a status, so what the status changes must show in a value: after ours has fallen idle the other input
counts alone, and our results are late until we have caught up (W2, W3). Invariants: the other input says a step above
each watermark of ours, so that what is late depends on the order of our elements alone; its expected value, the stamp
`late` of `harness.scenario.workloads.sessions`, is computed without code of this task.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import chain, takewhile
from typing import Any

from msgspec.structs import replace

from harness.faults.parts.parts import Upstream
from harness.scenario.workloads.lookups import Inputs, LookupSource
from harness.scenario.workloads.shape import Lookup, MarkOfTime
from harness.sut.function_under_test import Enriched
from harness.sut.positions import HeldUpstream
from harness.system.choices import Choices
from reference_impl.checkpoints.async_checkpoint import OperatorSubtaskState
from reference_impl.checkpoints.input_gate import StatusWatermarkValve
from reference_impl.elements import OperatorInput, Record, Watermark, WatermarkStatus
from reference_impl.operator.async_wait import AsyncWaitOperator
from reference_impl.operator.build import ordered_wait
from reference_impl.operator.result import ResultHandle
from reference_impl.task.input_processor import Reader
from reference_impl.task.operator_chain import AsyncOperator, BuildAsyncOperator, OperatorLink, async_link

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
        # What stands in front of the first element that is replayed, behind the state of the keyed operator.
        first: Any = replayed[1] if len(replayed) > 1 else None
        end = position if first is None else first.position
        left = chain.from_iterable(map(self._at, range(end)))
        if first is not None:
            left = chain(left, takewhile(lambda element: element != first, self._at(end)))
        for element in left:
            attempt.hear(element)
        return attempt.emit

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


_ID = "upstream"


class UpstreamOperator:
    """A `harness.engine.subtask.InFront`, of one attempt. Mutable: counts the elements that it has passed on."""

    def __init__(
        self,
        settings: Upstream,
        *,
        reader: Reader,
        loop: asyncio.AbstractEventLoop,
        copy_value: Callable[[Lookup], Lookup] | None,
    ) -> None:
        """`reader` hears of each element when it enters the lookups."""
        self._settings = settings
        self._reader = reader
        self._loop = loop
        self._copy_value = copy_value
        self._position = 0

    def held(self, elements: Sequence[object]) -> int:
        """How many of a checkpoint's elements this operator held; they are the last ones."""
        # A copy: to iterate over `elements` itself is to replay them, and reaches the phases of a restore.
        unreached = elements[:]
        return sum(type(element) is HeldUpstream for element in unreached)

    def link(self, restored: Iterable[HeldUpstream], *, position: int) -> OperatorLink:
        """The operator, with its elements of the checkpoint; the first one stands at `position`."""
        self._position = position
        return async_link(
            self._operator,
            operator_id=_ID,
            restored=(held.element for held in restored),
            is_hard=False,
            blocked=lambda entering: entering,
        )

    def elements(self, states: Mapping[str, OperatorSubtaskState]) -> tuple[HeldUpstream, ...]:
        """What it holds, to be put behind the elements of the lookups."""
        return tuple(HeldUpstream(element=element) for element in states[_ID].managed_operator_state)

    def takes(self, element: OperatorInput) -> None:
        """Does nothing: what the source reads has not reached the lookups yet."""

    def source_exhausted(self) -> None:
        """Does nothing: the lookups' input ends when this operator is empty (`around`)."""

    def around(self, lookups: BuildAsyncOperator) -> BuildAsyncOperator:
        """`lookups`, whose operator tells the reader when its own input ends."""
        return telling_end(lookups, reader=self._reader)

    def _operator(self, *, emit: Callable[[OperatorInput], None], **parts: Any) -> AsyncWaitOperator:
        return ordered_wait(
            capacity=self._settings.capacity,
            function=_Delayed(self._loop, longest_ms=self._settings.delay),
            timeout_ms=0,
            copy_value=self._copy_value,
            emit=partial(self._pass_on, emit),
            **parts,
        )

    def _pass_on(self, emit: Callable[[OperatorInput], None], element: OperatorInput) -> None:
        assert isinstance(element, Record | Watermark), f"a workload of lookups holds no {element!r}"
        placed = replace(element, position=self._position)
        self._position += 1
        self._reader.takes(placed)
        emit(placed)


class _Delayed:
    """An `AsyncFunction` that gives each record back, after a delay that its id draws."""

    def __init__(self, loop: asyncio.AbstractEventLoop, *, longest_ms: int) -> None:
        self._loop = loop
        self._longest_ms = longest_ms

    def invoke(self, value: Lookup, handle: ResultHandle) -> None:
        delay_ms = Choices(value.id, "delay in front of the lookups").between(0, self._longest_ms)
        self._loop.call_later(delay_ms / 1000, handle.complete, [value])

    def timeout(self, value: object, handle: ResultHandle) -> None:
        """Never called: it has no timeout."""
        raise AssertionError(f"record {value!r} has no timeout here, but {handle!r} was asked for one")


def telling_end(lookups: BuildAsyncOperator, *, reader: Reader) -> BuildAsyncOperator:
    """`lookups` behind another operator, which may still let mail of the lookups run after the source has ended.

    What is called at the end of the input depends on when the lookups' own input ends (A85), so that is told.
    """

    def built(**parts: Any) -> AsyncOperator:
        operator = lookups(**parts)
        end_input = operator.end_input

        def told() -> None:
            reader.source_exhausted()
            end_input()

        shadowed: Any = operator
        shadowed.end_input = told
        return operator

    return built
