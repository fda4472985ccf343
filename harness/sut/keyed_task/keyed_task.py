"""Kept state: what a snapshot keeps of the operator in front of the lookups, as text that any sink can store.

Answers to an `OperatorSubtaskState` on its way through a checkpoint storage. Invariant: msgpack of known types and no
pickle; a text that was altered on its way is refused, for it carries the checksum of what it holds.
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
