"""What a two-phase sink writes through: transactions that can be made durable before they are made visible.

Answers to the abstract methods of Flink's `TwoPhaseCommitSinkFunction` and to its `TransactionHolder`. Invariant: what
is pre-committed survives a crash of the writer and shows nothing until it is committed; to commit or abort again what
was already committed or aborted changes nothing (C43).
"""

from __future__ import annotations

from typing import Any, Protocol

from msgspec import Struct

__all__ = ["Transaction", "Transactions"]


class Transaction(Struct, frozen=True):
    """A transaction and when it began."""

    handle: Any
    """Plain data by which the store knows it, in this process and in the next."""
    began_ms: int
    """By the sink's clock."""


class Transactions(Protocol):
    """A store. A class that names this as its parent inherits the two last methods."""

    def begin_transaction(self) -> Any:
        """A new one: its handle."""

    def invoke(self, handle: Any, value: Any) -> None:
        """Write `value` in it."""

    def pre_commit(self, handle: Any) -> None:
        """Make it durable and invisible; nothing more is written in it. What this raises fails the checkpoint."""

    def commit(self, handle: Any) -> None:
        """Make it visible; of no effect if it is. What this raises fails the task, which tries again once restored."""

    def abort(self, handle: Any) -> None:
        """Let it never become visible; of no effect if it is gone, and not called for what was committed."""

    def recover_and_commit(self, handle: Any) -> None:
        """As `commit`, of a transaction that an earlier run of the sink pre-committed, and may have committed."""
        self.commit(handle)

    def recover_and_abort(self, handle: Any) -> None:
        """As `abort`, of a transaction that an earlier run began, and may have pre-committed for a lost checkpoint."""
        self.abort(handle)
