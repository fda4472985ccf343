"""Shown rows: the database's audit log as it is read after the run, held against the rows that must be there.

Answers to V9 and V13. Invariant: where the sums cannot tell, V9 is suspected. Memory grows with rows of calls that
ended unclearly.
"""

from __future__ import annotations

from functools import reduce

from msgspec import UNSET

from harness.checkers.screen.account import Account
from harness.checkers.screen.irregular import Irregular
from harness.checkers.screen.rows import Rows, Sums
from harness.history.event import Effect, Id

__all__ = ["ShownRows"]


class ShownRows:
    """Feed it the rows in order. Mutable."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._rows = Rows(account.by_row or "records")
        self._later: list[Effect] = []
        """Of records that may have a row or not."""
        self.count = 0
        self._valued = 0
        self._seq: int | None = None
        self._tokens: dict[int, int] = {}

    def show(self, row: Effect) -> None:
        """Take the next row of the log."""
        if row.j is UNSET and self._rows.by_output:
            raise Irregular("a row without the number of its output")
        if self._seq is not None and row.seq <= self._seq:
            raise Irregular("rows in another order than they were committed in")
        self._seq = row.seq
        if row.token < self._tokens.get(row.s, row.token):
            self._account.suspect("V13")
        self._tokens[row.s] = row.token
        self.count += 1
        if row.id in self._account.either:
            self._later.append(row)
        else:
            self._add(row)

    def match(self, expected: list[Sums]) -> bool:
        """Whether the log is certainly as it should be."""
        either = self._account.either
        kept: set[tuple[Id, int]] = set()
        for row in self._later:
            if row.id not in either:
                self._add(row)
                continue
            key = (row.id, self._number(row))
            if key in kept:
                return False
            kept.add(key)
        due = reduce(Sums.__add__, expected, Sums())
        shown = self._rows.sums
        # Where some rows tell their value and some do not, the sums of values differ, and so nothing is certain.
        return shown[:2] == due[:2] and (not self._valued or shown == due)

    def _number(self, row: Effect) -> int:
        return row.j if self._rows.by_output and row.j is not UNSET else 0

    def _add(self, row: Effect) -> None:
        v = row.v
        if v is not UNSET:
            self._valued += 1
            v = v if self._rows.by_output or isinstance(v, list) else [v]
        self._rows.add(row.id, self._number(row), v)
