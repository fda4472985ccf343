"""The environment variables that configure worlds, read once into a value.

Invariant: no other module of `harness.world` reads the environment.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.system.errors import UsageError
from harness.world.places import Places

PORT_LIMIT = 65_535


@dataclass(frozen=True, slots=True, kw_only=True)
class WorldSettings:
    """The settings; None where a variable is not set."""

    places: Places
    mysql_image: str | None = None
    """`FLOODMARK_MYSQL_IMAGE`"""
    toxiproxy_image: str | None = None
    """`FLOODMARK_TOXIPROXY_IMAGE`"""
    server: Path | None = None
    """`FLOODMARK_MYSQLD`: the `mysqld` or `mariadbd` to use instead of searching for one."""
    ports: range | None = None
    """`FLOODMARK_PORTS`, for example `21000-21999`: take ports from this range only."""
    engine: str | None = None
    """`DOCKER_HOST`: the container engine's address, if not the usual one."""
    path: str = os.defpath
    """`PATH`, for finding programs."""

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] | None = None) -> WorldSettings:
        """Read the variables. Raises UsageError for an invalid value."""
        given = os.environ if environ is None else environ
        server, cache = given.get("FLOODMARK_MYSQLD"), given.get("FLOODMARK_CACHE")
        root = Path(cache).expanduser().absolute() if cache else Path.home() / ".cache" / "floodmark"
        return cls(
            places=Places(root=root),
            mysql_image=given.get("FLOODMARK_MYSQL_IMAGE") or None,
            toxiproxy_image=given.get("FLOODMARK_TOXIPROXY_IMAGE") or None,
            server=Path(server) if server else None,
            ports=_ports(given.get("FLOODMARK_PORTS", "")),
            engine=given.get("DOCKER_HOST") or None,
            path=given.get("PATH", os.defpath),
        )


def _ports(text: str) -> range | None:
    if not text:
        return None
    low, _, high = text.partition("-")
    if not (low.isdecimal() and high.isdecimal() and 0 < int(low) <= int(high) <= PORT_LIMIT):
        raise UsageError(f"FLOODMARK_PORTS={text} is not a range of ports", fix="write it like 21000-21999")
    return range(int(low), int(high) + 1)
