"""A keyed task: what a scenario's `task:` puts around the lookups of one subtask, at every level.

Answers to a job graph's vertex with two inputs and a chain of two operators. It adds parts and replaces none:
source, lookups, coordination and sink are those of a task without it.
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
    """Of one subtask."""

    inputs: Inputs
    gap_ms: int
    parts: KeyedParts = HONEST_PARTS

    def head(self, reader: Reader, *, phases: Phases) -> KeyedHead:
        """One attempt's operator with state by key, and the inputs in front of it; `reader` hears what is read."""
        return KeyedHead(
            function=SessionCounter(gap_ms=self.gap_ms, phases=phases),
            inputs=self.inputs,
            parts=self.parts,
            reader=reader,
            phases=phases,
        )
