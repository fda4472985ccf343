"""Worlds: the real database and the real proxy that a run talks to, opened and removed as one thing."""

from __future__ import annotations

from harness.world.opening import open_world
from harness.world.world import DATABASE, LINKS, Address, Credentials, ProxyControl, World, WorldSource

__all__ = [
    "DATABASE",
    "LINKS",
    "Address",
    "Credentials",
    "ProxyControl",
    "World",
    "WorldSource",
    "open_world",
]
