"""Connections that were lost or refused, as evidence of a simulated fault."""

from __future__ import annotations

from collections import Counter
from typing import Any, Final

__all__ = ["LOST_CONNECTION", "REFUSED", "losses"]

LOST_CONNECTION: Final = 2013
"""The client's error for a connection that ended under it."""
REFUSED: Final = 2003
"""The client's error for a connect that was refused."""


def losses(codes: Counter[str]) -> dict[str, Any]:
    """How many in all, and how many by each error code; empty if there are none."""
    some = {code: count for code, count in sorted(codes.items()) if count}
    return {"connections_lost": sum(some.values()), "codes": some} if some else {}
