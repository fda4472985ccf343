"""Loads Floodmark's own pytest plugin, which collects scenario files as tests; nothing else belongs here."""

from __future__ import annotations

pytest_plugins = ["harness.pytest_plugin"]
