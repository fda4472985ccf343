"""Planted defect: a list that its user takes for its own is kept as a union, and nobody takes out what is not his.

Answers to the pitfall of union list state (S25): after each restore every subtask has what all had, so that what is in
flight doubles with each. With one subtask the mutant is the reference.
"""

from __future__ import annotations

from typing import Any

from reference_impl.state.operator_state import OperatorStateBackend, PartitionableListState
from reference_impl.state.state_descriptor import ListStateDescriptor

__all__ = ["UnitingBackend"]


class UnitingBackend(OperatorStateBackend):
    """Takes every list for a union."""

    def get_list_state(self, descriptor: ListStateDescriptor) -> PartitionableListState[Any]:
        return self.get_union_list_state(descriptor)
