"""Every canary, and the honest histories among them."""

from __future__ import annotations

from collections.abc import Sequence

from harness.history.verdict import Outcome
from harness.judge.canaries.canary import TABLES, Canary
from harness.judge.canaries.of_calls import OF_CALLS
from harness.judge.canaries.of_checkpoints import OF_CHECKPOINTS, ZOMBIE
from harness.judge.canaries.of_tables import DOUBLED, HONEST_ROWS, OF_TABLES
from harness.judge.canaries.of_the_stream import HONEST, OF_THE_STREAM

__all__ = ["CANARIES", "HONEST_ONES", "OF_FILES"]

HONEST_ONES: Sequence[Canary] = (
    Canary(invariant="", about="stream", outcome=Outcome.PASS, events=HONEST),
    Canary(
        invariant="",
        about="rows",
        outcome=Outcome.PASS,
        claims={"effects": "outputs", "tables": TABLES},
        events=HONEST_ROWS,
    ),
)
CANARIES: Sequence[Canary] = (*OF_THE_STREAM, *OF_CHECKPOINTS, *OF_CALLS, *OF_TABLES, *HONEST_ONES)
OF_FILES: Sequence[Canary] = (
    Canary(
        invariant="V9",
        kind="double-effect",
        about="without tables",
        claims={"effects": "outputs"},
        events=DOUBLED,
    ),
    Canary(
        invariant="V13",
        kind="zombie-effect",
        about="without tables",
        claims={"effects": "outputs"},
        events=ZOMBIE,
    ),
)
"""Those that only a history file can show: no run of ours leaves effects without claiming its tables."""
