"""How live connections are ended on demand."""

from __future__ import annotations

from enum import StrEnum

__all__ = ["Cutting"]


class Cutting(StrEnum):
    """In the words of the control API."""

    RST = "rst"
    """As if the network had torn: what is on its way is lost."""
    FIN = "fin"
    """As if both peers had hung up."""
