"""The toxics, one file each or a few together, with Toxiproxy's names and attributes."""

from __future__ import annotations

__all__: list[str] = []
