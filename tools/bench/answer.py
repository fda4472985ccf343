"""What every contender must give: each record's own value, once, in order.

Invariant: no time of a contender that lost, doubled or reordered a record is ever believed.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.errors import HarnessError

__all__ = ["WrongOutput", "require_all_in_order"]


class WrongOutput(HarnessError):
    """A contender's output is not what its input demands, so that its time says nothing."""


def require_all_in_order(came_out: Sequence[int], count: int) -> None:
    """Raise WrongOutput unless `came_out` is 0 .. count-1."""
    if list(came_out) == list(range(count)):
        return
    found = next((at for at, value in enumerate(came_out) if value != at), len(came_out))
    raise WrongOutput(
        f"{len(came_out)} results for {count} records; the first that is wrong is at {found}",
        fix="no time is given for a wrong output: run the tests of the contender",
    )
