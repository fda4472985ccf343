"""Planted defect: at another parallelism only as many subtasks get a copy of broadcast state as have written one.

Answers to FLINK-23475 and to copies that diverge after a rescale (S22, S24): the subtasks that came in addition know no
rules until the next are broadcast. Where no more subtasks restore than have reported, the mutant is the reference.
"""

from __future__ import annotations

from reference_impl.state.handles import OperatorStatePartitions
from reference_impl.state.repartitioner import RoundRobinOperatorStateRepartitioner

__all__ = ["MiserlyRepartitioner"]


class MiserlyRepartitioner(RoundRobinOperatorStateRepartitioner):
    """Gives each copy once."""

    def broadcast(
        self,
        copies: dict[str, list[OperatorStatePartitions]],
        given: list[dict[str, OperatorStatePartitions]],
    ) -> None:
        for name, partitions in copies.items():
            for states, copy in zip(given, partitions, strict=False):
                states[name] = copy
