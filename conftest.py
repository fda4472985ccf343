"""Loads this tree's own pytest plugin, which collects scenario files as tests; nothing else belongs here."""

from __future__ import annotations

# The entry point has the name of its module, so that pytest loads it once (docs/decisions/0004).
pytest_plugins = ["pytest_floodmark"]
