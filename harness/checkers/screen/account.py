"""The account: what the screen has counted, and which invariants it cannot vouch for.

Invariant: a name in `suspected` never leaves it. Memory grows with faults and completed checkpoints, and by eight
bytes for each record and each nonce.
"""

from __future__ import annotations

from harness.checkers.screen.distinct import Distinct
from harness.checkers.stalls import Stalls
from harness.history.event import FaultEvent, Id
from harness.history.header import Header

__all__ = ["US_PER_MS", "Account"]

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
