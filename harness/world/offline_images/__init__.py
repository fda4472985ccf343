"""Images of MySQL and Toxiproxy for machines that no container registry answers, from ordinary package sources."""

from __future__ import annotations

__all__: list[str] = []
