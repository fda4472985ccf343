"""Planted defect: the keyed side gets broadcast state to write, and not a view of it.

Answers to a context that hands out the state itself (S24): what a subtask writes for its own keys is in its copy alone,
so the copies diverge. Where the keyed side only reads, the mutant is the reference.
"""

from __future__ import annotations

from reference_impl.checkpoints.state_handler import StateInitializationContext
from reference_impl.functions.keyed_operators import KeyedBroadcastProcessOperator

__all__ = ["TrustingBroadcastOperator"]


class TrustingBroadcastOperator(KeyedBroadcastProcessOperator):
    """Its two sides have the same state in hand."""

    def initialize_state(self, context: StateInitializationContext) -> None:
        super().initialize_state(context)
        self._views.update(self._states)  # type: ignore[arg-type]  # this is the defect
