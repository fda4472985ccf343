"""Planted defect: a two-phase sink begins a transaction in the snapshot after its end, which nobody will ever end.

Answers to FLINK-23473 (C40): the transaction is open for good, with the locks that it holds. Before the end of the
input the mutant is the reference.
"""

from __future__ import annotations

from reference_impl.functions.two_phase_commit_sink import TwoPhaseCommitSinkFunction

__all__ = ["EndlessSink"]


class EndlessSink(TwoPhaseCommitSinkFunction):
    """Takes no notice of its end, nor of its close."""

    def finish(self) -> None:
        """As if more were to come."""

    def close(self) -> None:
        """As if somebody else would end what is open."""
