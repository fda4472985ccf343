"""A module that counts how often its process imports it."""

from __future__ import annotations

times = 0
