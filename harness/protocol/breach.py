"""The one error of this package: a system under test that breaks the protocol, in any way.

Invariant: it says which kind of breach, at which command, and what the program said last.
"""

from __future__ import annotations

from enum import StrEnum

from harness.errors import SutError

__all__ = ["Breach", "BreachKind", "shortened"]

SHOWN_MAX = 300
"""Characters of a line that a message shows."""


class BreachKind(StrEnum):
    """In what way a program broke the protocol."""

    START = "cannot be started"
    DEATH = "died"
    HANG = "hung"
    FLOOD = "flooded"
    NONSENSE = "talked nonsense"
    TURN = "spoke out of turn"
    STATE = "wrote what its state forbids"


class Breach(SutError):
    """A program that broke the protocol; it was ended before this was raised, unless its answer was whole."""

    def __init__(self, what: str, *, kind: BreachKind, command: int, fix: str = "") -> None:
        super().__init__(what, fix=fix)
        self.kind = kind
        self.command = command


def shortened(line: bytes | str) -> str:
    """A line as a message may show it."""
    text = line.decode(errors="backslashreplace") if isinstance(line, bytes) else line
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}... ({len(text)} characters)"
