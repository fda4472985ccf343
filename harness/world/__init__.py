"""Worlds: a real database server and a real proxy for a run, set up and removed together."""

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
