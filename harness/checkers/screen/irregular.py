"""Irregular: what the screen does not recognise, and leaves to the exact checkers.

Invariant: it says nothing about right or wrong; it only ends the screen's competence.
"""

from __future__ import annotations

__all__ = ["Irregular"]


class Irregular(Exception):
    """The history leaves the life that the screen follows."""
