"""A keyed task: the parts that a scenario's `task` adds in front of the lookups of one subtask, at every level.

Answers to a vertex of a job graph with two inputs and a chain of two operators. Source, lookups, coordination and sink
are the same as without it.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.sut.keyed_task.keyed_head import KeyedHead
from harness.sut.keyed_task.parts import HONEST_PARTS, KeyedParts
from harness.sut.keyed_task.session_counter import SessionCounter
from harness.sut.phases import Phases
from harness.workloads.lookups import Inputs
from reference_impl.task.positioned_input import Reader

__all__ = ["KeyedTask"]


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyedTask:
    """The keyed task of one subtask."""

    inputs: Inputs
    gap_ms: int
    parts: KeyedParts = HONEST_PARTS

    def head(self, reader: Reader, *, phases: Phases) -> KeyedHead:
        """The keyed operator of one attempt with its inputs; `reader` gets each element that is read."""
        return KeyedHead(
            function=SessionCounter(gap_ms=self.gap_ms, phases=phases),
            inputs=self.inputs,
            parts=self.parts,
            reader=reader,
            phases=phases,
        )
