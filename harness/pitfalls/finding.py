"""The pitfalls that a run shows, each with what was measured.

Invariant: a pitfall is no verdict. It says what will hurt, beside verdicts that say what is broken; a run that is to
show one, and does not, has shown nothing.
"""

from __future__ import annotations

from collections.abc import Callable

from harness.pitfalls import blocking_call, client_without_pool, lost_completion, open_connections, small_pool
from harness.pitfalls.seen import RunSeen
from harness.pitfalls.timeouts import find_failing, find_silent
from harness.runs.outcome import Pitfall

__all__ = ["find_pitfalls"]

_FINDERS: tuple[Callable[[RunSeen], Pitfall | None], ...] = (
    blocking_call.find,
    client_without_pool.find,
    small_pool.find,
    find_failing,
    find_silent,
    open_connections.find,
    lost_completion.find,
)


def find_pitfalls(seen: RunSeen) -> tuple[Pitfall, ...]:
    """In the order of `docs/pitfalls.md`."""
    return tuple(pitfall for find in _FINDERS if (pitfall := find(seen)) is not None)
