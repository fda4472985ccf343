"""The account: what the screen has counted, and which invariants it cannot vouch for.

Invariant: a name in `suspected` never leaves it. Memory grows with faults and completed checkpoints, and by eight
bytes for each record and each nonce.
"""

from __future__ import annotations

from functools import reduce

from msgspec import UNSET

from harness.checkers.screen.totals import Distinct, Irregular, Rows, Sums
from harness.history.event import Effect, FaultEvent, Id
from harness.history.header import Header
from harness.history.stalls import Stalls

__all__ = ["US_PER_MS", "Account", "ShownRows"]

US_PER_MS = 1000
_EARLY_MS = 1


class Account:
    """Shared by all subtasks of one history. Mutable."""

    def __init__(self, header: Header) -> None:
        operator, bounds = header.operator, header.bounds
        self.header = header
        self.ordered = operator.mode == "ordered"
        self.append = header.sink == "append"
        self.slots = operator.watermark_slots
        self.capacity = operator.capacity
        self.max_tries = operator.max_tries
        self.timeout_us = operator.timeout_ms * US_PER_MS
        self.early_us = (operator.timeout_ms - _EARLY_MS) * US_PER_MS
        slack_us = bounds.timeout_slack * US_PER_MS
        self.limit_us = self.timeout_us + slack_us if self.timeout_us else None
        """So long after its first call a record should have its final outcome, at the latest."""
        self.hold_us = None if bounds.watermark_hold is None else bounds.watermark_hold * US_PER_MS
        self.by_row = header.effects
        self.suspected: dict[str, None] = {}
        self.ids = Distinct()
        self.nonces = Distinct()
        self.keyed = False
        self.either: dict[Id, None] = {}
        """Records that may have their row in the database or not, with any value."""
        self.faults: list[FaultEvent] = []
        self.watermarks = self.snaps = self.restarts = self.restores = 0
        self.calls = self.answers = self.outs = self.owms = self.failures = 0
        self.commits = self.named_commits = self.completed_snaps = 0
        self.completed: dict[int, None] = {}

    def suspect(self, *names: str) -> None:
        """These invariants are for their exact checkers to judge."""
        self.suspected.update(dict.fromkeys(names))

    def stalled(self, since: int, until: int) -> bool:
        """Whether a fault held the operator up meanwhile; `until` is now or before."""
        return Stalls(self.faults).overlap(since, until)


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
