"""Images of MySQL and Toxiproxy from ordinary package sources, for machines that no registry answers."""

from __future__ import annotations

__all__: list[str] = []
