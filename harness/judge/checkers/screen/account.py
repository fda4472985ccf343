"""The screen's counters, and the invariants that it suspects and leaves to their exact checkers.

Invariant: a name in `suspected` is never removed. Memory grows with faults and completed checkpoints, and by
eight bytes for each record and each nonce.
"""

from __future__ import annotations

from collections import Counter
from functools import reduce

from msgspec import UNSET

from harness.history.event import CAUSES_OUTSIDE, Effect, Failed, FaultEvent, Id, Kill, Start
from harness.history.header import Header
from harness.history.service import Service
from harness.history.stalls import Stalls
from harness.judge.checkers.screen.totals import Distinct, ExpectedRows, Irregular, Sums

US_PER_MS = 1000


class Account:
    """Counters, limits from the header and suspicions, shared by all subtasks of one history. Mutable."""

    def __init__(self, header: Header, *, asks_of_calls: bool = True) -> None:
        operator, bounds = header.operator, header.bounds
        self.header = header
        self.ordered = operator.mode == "ordered"
        self.append = header.sink == "append"
        self.slots = operator.watermark_slots
        self.capacity = operator.capacity
        self.max_tries = operator.max_tries
        self.timeout_us = operator.timeout_ms * US_PER_MS
        self.early_us = (operator.timeout_ms - bounds.timer_resolution) * US_PER_MS
        slack_us = bounds.timeout_slack * US_PER_MS
        self.limit_us = self.timeout_us + slack_us if self.timeout_us else None
        """The longest time from a record's first call to its final outcome; None: no timeout."""
        self.call_limit_us = self.limit_us if bounds.timer_resolution else self.timeout_us or None
        """The longest time from a record's first call to another one; None: no timeout."""
        self.hold_us = None if bounds.watermark_hold is None else bounds.watermark_hold * US_PER_MS
        self.by_row = header.effects
        self.retry = operator.retry
        keeps_keys = operator.per_key_order and not self.ordered
        self.keeps_resolved = bool(header.tables) or header.by_key or keeps_keys
        """Whether what was resolved is kept to the end, to be compared with rows and by key."""
        self.service = Service(header)
        self.explained = header.explained is not None
        self.asks_of_calls = asks_of_calls
        """Whether any invariant that is asked for depends on calls; if none does, they are passed over."""
        self.suspected: dict[str, None] = {}
        self.ids = Distinct()
        self.nonces = Distinct()
        self.keyed = False
        self.either: dict[Id, None] = {}
        """Records whose row in the database may be present or absent, with any value."""
        self.faults: list[FaultEvent] = []
        self.watermarks = self.snaps = self.restarts = self.restores = 0
        self.calls = self.answers = self.outs = self.owms = self.failures = 0
        self.commits = self.named_commits = self.completed_snaps = 0
        self.completed: dict[int, None] = {}
        self.acknowledged = self.unacknowledged = False
        """Whether there is any `ack`; whether a running subtask lacks that of its newest attempt at some `done`."""
        self.incidents = 0
        """The failures, kills and restarts that V24 asks about."""
        self._on: Counter[str] = Counter()
        """How many faults of each name are on."""

    def suspect(self, *names: str) -> None:
        """Leave these invariants to their exact checkers."""
        self.suspected.update(dict.fromkeys(names))

    def begin_or_end(self, fault: FaultEvent) -> None:
        """A fault begins or ends; irregular if it ends and has not begun."""
        self.faults.append(fault)
        self.service.step(fault)
        self._on[fault.f] += 1 if fault.phase == "begin" else -1
        if self._on[fault.f] < 0:
            raise Irregular("a fault ends that has not begun")

    def ask(self, event: Failed | Kill | Start, *, explained: bool = False) -> None:
        """A failure, kill or restart: suspect V24 unless it is explained, or names a cause that is on."""
        self.incidents += 1
        by = event.by
        if not (explained or (by is not UNSET and (by in CAUSES_OUTSIDE or self._on[by] > 0))):
            self.suspect("V24")

    def stalled(self, since: int, until: int) -> bool:
        """Whether a fault stalled the operator in that time; `until` must not be after the current event."""
        return Stalls(self.faults).overlap(since, until)


class ShownRows:
    """The rows of the audit log (`effect` events), added in order and compared at the end. Mutable."""

    def __init__(self, account: Account) -> None:
        self._account = account
        self._rows = ExpectedRows(account.by_row or "records")
        self._later: list[Effect] = []
        """Rows of records whose row may be present or absent."""
        self.count = 0
        self._valued = 0
        self._seq: int | None = None
        self._tokens: dict[int, int] = {}

    def show(self, row: Effect) -> None:
        if row.j is UNSET and self._rows.by_output:
            raise Irregular("a row without the number of its output")
        if self._seq is not None and row.seq <= self._seq:
            raise Irregular("rows that are not in commit order")
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
        """Whether the log certainly equals what the resolved records call for."""
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
        # If only some rows have a value, the sums of values differ and the answer is no.
        return shown[:2] == due[:2] and (not self._valued or shown == due)

    def _number(self, row: Effect) -> int:
        return row.j if self._rows.by_output and row.j is not UNSET else 0

    def _add(self, row: Effect) -> None:
        v = row.v
        if v is not UNSET:
            self._valued += 1
            v = v if self._rows.by_output or isinstance(v, list) else [v]
        self._rows.add(row.id, self._number(row), v)
