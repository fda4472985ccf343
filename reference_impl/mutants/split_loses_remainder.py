"""Planted defect: a list that cannot be split evenly loses what is left over.

Answers to a division that forgets its remainder (S20, S21). Where the new parallelism divides the number of elements,
or is the old one, the mutant is the reference.
"""

from __future__ import annotations

from dataclasses import replace

from reference_impl.state.handles import OperatorStatePartitions
from reference_impl.state.repartitioner import RoundRobinOperatorStateRepartitioner

__all__ = ["TruncatingRepartitioner"]


class TruncatingRepartitioner(RoundRobinOperatorStateRepartitioner):
    """Gives everybody as many."""

    def split(
        self,
        written: dict[str, list[OperatorStatePartitions]],
        given: list[dict[str, OperatorStatePartitions]],
    ) -> None:
        super().split(written, given)
        for name in {name: None for states in given for name in states}:
            least = min(len(states[name].items) for states in given)
            for states in given:
                states[name] = replace(states[name], items=states[name].items[:least])
