"""`open-connections`: connections are opened and never closed, so that there are more and more of them.

Shown by the server: more lived at once than calls were ever open.
"""

from __future__ import annotations

from harness.pitfalls.seen import RunSeen
from harness.runs.outcome import Pitfall

__all__ = ["find"]

_MORE = 1.5
_AND = 10
"""So many more than could be in use are no accident."""


def find(seen: RunSeen) -> Pitfall | None:
    """How many there were, and how many could be of use."""
    if seen.server is None:
        return None
    at_once = sum(
        sorted((calls.at_once for calls in seen.calls), reverse=True)[: seen.scenario.workload.subtasks]
    )
    if not at_once or seen.server.at_once <= _MORE * at_once + _AND:
        return None
    return Pitfall(
        name="open-connections",
        says=f"The server had {seen.server.at_once} connections at once, while never more than {at_once} calls were "
        f"open: connections are opened ({seen.server.opened} in all) and not closed.",
        advice="Give a connection back, or close it, however its call ends (async with, finally).",
        evidence={
            "connections_at_once": seen.server.at_once,
            "calls_at_once": at_once,
            "opened": seen.server.opened,
        },
    )
