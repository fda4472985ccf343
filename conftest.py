"""Loads this tree's own pytest plugin, and says how often Hypothesis tries.

A property is tried twenty times in tier quick and a hundred times in tier sweep (`--hypothesis-profile=thorough`).
There is no limit of time: a busy machine fails no test.
"""

from __future__ import annotations

from hypothesis import settings

# The entry point has the name of its module, so that pytest loads it once (docs/decisions/0004).
pytest_plugins = ["pytest_floodmark"]

settings.register_profile("quick", deadline=None, max_examples=20)
settings.register_profile("thorough", deadline=None, max_examples=100)
settings.load_profile("quick")
