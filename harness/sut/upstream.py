"""A second asynchronous operator in front of the lookups, in the same chain: it passes each record on after a delay.

Answers to two chained `AsyncWaitOperator`s. Invariants: it emits in order, one element for each that it takes, so what
it holds is what the source read last; the history is that of the lookups, which take an element when it leaves here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from msgspec.structs import replace

from harness.faults.parts.parts import Upstream
from harness.sut.positions import HeldUpstream
from harness.system.choices import Choices
from reference_impl.checkpoints.task_state import OperatorSubtaskState
from reference_impl.elements import OperatorInput, Record, Watermark
from reference_impl.operator.async_wait import AsyncWaitOperator
from reference_impl.operator.build import ordered_wait
from reference_impl.operator.result import ResultHandle
from reference_impl.task.async_link import BuildAsyncOperator, async_link
from reference_impl.task.operator_chain import OperatorLink
from reference_impl.task.positioned_input import Reader

_ID = "upstream"


class UpstreamOperator:
    """A `harness.engine.subtask.InFront`, of one attempt. Mutable: counts the elements that it has passed on."""

    def __init__(
        self,
        settings: Upstream,
        *,
        reader: Reader,
        loop: asyncio.AbstractEventLoop,
        copy_value: Callable[[Any], Any] | None,
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

    def invoke(self, value: Any, handle: ResultHandle) -> None:
        delay_ms = Choices(value.id, "delay in front of the lookups").between(0, self._longest_ms)
        self._loop.call_later(delay_ms / 1000, handle.complete, [value])

    def timeout(self, value: object, handle: ResultHandle) -> None:
        """Never called: it has no timeout."""
        raise AssertionError(f"record {value!r} has no timeout here, but {handle!r} was asked for one")


def telling_end(lookups: BuildAsyncOperator, *, reader: Reader) -> BuildAsyncOperator:
    """`lookups` behind another operator, which may still let mail of the lookups run after the source has ended.

    What is called at the end of the input depends on when the lookups' own input ends (A85), so that is told.
    """

    def built(**parts: Any) -> Any:
        operator: Any = lookups(**parts)
        end_input = operator.end_input

        def told() -> None:
            reader.source_exhausted()
            end_input()

        operator.end_input = told
        return operator

    return built
