"""A toxic as it was asked for: its name, kind, direction, how often it acts, and what it is set to."""

from __future__ import annotations

from dataclasses import dataclass

from harness.proxy.stage import Attributes, Stream

__all__ = ["Toxic"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Toxic:
    """One toxic of a link; a change makes a new value."""

    name: str
    type: str
    stream: str
    """The direction as it was written by who asked."""
    direction: Stream
    toxicity: float = 1.0
    """Of so many connections (0 to 1) it acts on; decided once for each."""
    attributes: Attributes
