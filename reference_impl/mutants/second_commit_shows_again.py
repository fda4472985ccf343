"""Planted defect: a commit shows its rows, however often it comes.

Answers to a store, or a sink's use of it, that is not idempotent (C43): what was committed by a notification and again
after a restore is shown twice. Where nothing is restored, the mutant is the reference.
"""

from __future__ import annotations

from typing import Any

from reference_impl.functions.two_phase_commit_sink import Transactions

__all__ = ["ForgetfulTransactions"]


class ForgetfulTransactions(Transactions):
    """Copies each transaction's values to a new one at every commit, and commits that."""

    def __init__(self, store: Transactions) -> None:
        self._store = store
        self._values: dict[Any, list[Any]] = {}

    def begin_transaction(self) -> Any:
        handle = self._store.begin_transaction()
        self._values[handle] = []
        return handle

    def invoke(self, handle: Any, value: Any) -> None:
        self._store.invoke(handle, value)
        self._values[handle].append(value)

    def pre_commit(self, handle: Any) -> None:
        self._store.pre_commit(handle)

    def commit(self, handle: Any) -> None:
        again = self._store.begin_transaction()
        for value in self._values[handle]:
            self._store.invoke(again, value)
        self._store.pre_commit(again)
        self._store.commit(again)

    def abort(self, handle: Any) -> None:
        self._store.abort(handle)
