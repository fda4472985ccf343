"""`no-pool`: a connection for each lookup, or one for all of them.

Shown by the server's own count of connections beside the calls of the history: as many as calls, or no more than
subtasks where several calls were open at once.
"""

from __future__ import annotations

from harness.pitfalls.seen import RunSeen
from harness.runs.outcome import Pitfall

__all__ = ["find"]

_CALLS_MIN = 20
_AT_ONCE_MIN = 4
_ADVICE = "Use a pool with as many connections as the operator's capacity, opened once."
_OF_A_SUBTASK = 2
"""Connections that the harness itself needs of an attempt: its sink's, and one for a checkpoint's coordinator."""
_OF_THE_RUN = 4
"""The coordinator's, and those that count."""


def find(seen: RunSeen) -> Pitfall | None:
    """The one or the other."""
    if seen.server is None or seen.call_count < _CALLS_MIN:
        return None
    ours = _OF_A_SUBTASK * len(seen.of_kind("start")) + _OF_THE_RUN
    lost = len(seen.of_kind("~lost"))
    opened = seen.server.opened - ours - lost
    if opened >= seen.call_count / 2:
        return Pitfall(
            name="no-pool",
            says=f"{seen.server.opened} connections were opened for {seen.call_count} calls: each call makes its own.",
            advice=_ADVICE,
            evidence={"opened": seen.server.opened, "calls": seen.call_count},
        )
    return _one_for_all(seen)


def _one_for_all(seen: RunSeen) -> Pitfall | None:
    assert seen.server is not None, "its caller has looked"
    subtasks = seen.scenario.workload.subtasks
    at_once = min((calls.at_once for calls in seen.calls), default=0)
    sinks = subtasks
    if at_once < _AT_ONCE_MIN or seen.server.at_once > sinks + subtasks + 1:
        return None
    return Pitfall(
        name="no-pool",
        says=f"Up to {at_once} calls of each subtask were open at once, and at no time were there more than "
        f"{seen.server.at_once} connections, those of {subtasks} sinks among them: a subtask's calls wait for one.",
        advice=_ADVICE,
        evidence={"calls_at_once": at_once, "connections_at_once": seen.server.at_once},
    )
