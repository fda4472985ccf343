"""Loads this tree's own pytest plugin, and lifts Hypothesis' limit of time: a busy machine fails no test."""

from __future__ import annotations

from hypothesis import settings

# The entry point has the name of its module, so that pytest loads it once (docs/decisions/0004).
pytest_plugins = ["pytest_floodmark"]

settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")
