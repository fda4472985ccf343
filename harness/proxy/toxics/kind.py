"""What a kind of toxic is: its name, its attributes with their defaults, which settings it refuses, what it does."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from harness.proxy.stage import Attributes, Place, Stage

__all__ = ["ToxicKind", "nothing_refused"]


def nothing_refused(attributes: Attributes) -> str:
    """For a kind that can do something sensible with any number."""
    del attributes
    return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToxicKind:
    """One type of toxic."""

    name: str
    attributes: Mapping[str, int | str]
    """Name to default, in the order in which they are listed; a default's type is the attribute's type."""
    refuse: Callable[[Attributes], str] = nothing_refused
    """Why complete attributes cannot be (a sentence), or nothing."""
    stage: Callable[[Place, Attributes], Stage] | None
    """What stands in the chain of a connection; None where the link or the packet gate does the work."""
    own: bool = False
    """Whether Toxiproxy does not know it."""
