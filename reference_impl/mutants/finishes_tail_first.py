"""Planted defect: the operators of a chain finish in the order in which they are opened.

Answers to FLINK-14231: what the head emits in finishing comes to a tail that has finished already. Where nobody emits
in finishing, the mutant is the reference.
"""

from __future__ import annotations

from reference_impl.checkpoint_events import StopMode
from reference_impl.task.operator_chain import OperatorChain

__all__ = ["ChainThatFinishesTailFirst"]


class ChainThatFinishesTailFirst(OperatorChain):
    """Tail first."""

    def finish_operators(self, mode: StopMode) -> None:
        """In the wrong order."""
        for wrapper in reversed(self._wrappers):
            wrapper.finish(mode)
