"""One of several, drawn."""

from __future__ import annotations

from typing import TypeVar

from harness.choices import Draw

__all__ = ["one_of"]

T = TypeVar("T")


def one_of(draw: Draw, *choices: T) -> T:
    """Each as likely as often as it is named."""
    return choices[draw.index(len(choices))]
