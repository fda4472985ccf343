"""Fixtures of the defects' tests: the database's own, for defects of its real classes."""

from __future__ import annotations

from harness.database.tests.conftest import database, world

__all__ = ["database", "world"]
