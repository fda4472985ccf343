"""Planted defect: the end of data leaves at once, whatever an operator has yet to emit on its last notification.

Answers to FLINK-38614: what a committer emits when its last checkpoint is complete comes behind the end of data, and
nobody reads it. Where no operator emits then, the mutant is the reference.
"""

from __future__ import annotations

from reference_impl.task.operator_chain import OperatorChain

__all__ = ["ChainThatHoldsNothingBack"]


class ChainThatHoldsNothingBack(OperatorChain):
    """It does not know that it emits on the final checkpoint."""

    @property
    def emits_on_final_checkpoint(self) -> bool:
        """It would have to ask its operators."""
        return False
