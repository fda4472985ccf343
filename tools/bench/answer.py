"""Checks a contender's output: each record's value, once, in order.

Invariant: no time is reported for a contender that lost, duplicated or reordered a record.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.system.errors import HarnessError


class WrongOutput(HarnessError):
    """A contender's output is wrong, so its time means nothing."""


def require_all_in_order(came_out: Sequence[int], count: int) -> None:
    """Raise WrongOutput unless `came_out` is 0 .. count-1."""
    if list(came_out) == list(range(count)):
        return
    found = next((at for at, value in enumerate(came_out) if value != at), len(came_out))
    raise WrongOutput(
        f"{len(came_out)} results for {count} records; the first wrong one is at {found}",
        fix="no time is reported for a wrong output: run the contender's tests",
    )
