"""Builds images of MySQL and Toxiproxy from package sources, for machines without access to a registry."""

from __future__ import annotations

__all__: list[str] = []
