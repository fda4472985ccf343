"""What the run's clients met while a fault of the server was on: the half of its evidence that is not its own word.

Invariant: only an error that a client of the run wrote down counts, from the moment the fault began to act, which
is before it stands (to end a server takes time, and its clients notice at once).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from harness.faults.real.seen import Seen

__all__ = ["GONE", "client_errors", "fact", "from_its_beginning"]

GONE: tuple[int | str, ...] = (
    0, 1053, 1152, 1927, 2003, 2006, 2013, 2055, 4031,
    "BrokenPipeError", "ConnectionAbortedError", "ConnectionRefusedError", "ConnectionResetError",
    "IncompleteReadError",
)  # fmt: skip
"""How clients tell that their connection is gone, or could not be had."""


def fact(seen: Seen, name: str) -> Any:
    """The last of what the fault itself found under this name; None if it found nothing so."""
    return next((facts[name] for facts in reversed(seen.found) if name in facts), None)


def from_its_beginning(seen: Seen) -> Seen:
    """The same, from when the fault began to act (its fact `began_us`)."""
    began_us = fact(seen, "began_us")
    return seen if began_us is None else replace(seen, armed_us=min(seen.armed_us, began_us))


def client_errors(seen: Seen, codes: Iterable[int | str], *, grace_us: int = 0) -> dict[str, int]:
    """How often clients met which of these errors since the fault began to act; by code, in their order."""
    met = from_its_beginning(seen).errors_during(*codes, grace_us=grace_us)
    return dict(sorted(Counter(str(code) for code in met).items()))
