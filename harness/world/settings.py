"""The environment variables that configure worlds, read once into a value; the folders of the cache.

Invariant: no other module of `harness.world` reads the environment.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.system.errors import UsageError, WorldError


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The folders of Floodmark's cache (kept between runs) and of its state (removed with a run).

        servers/    database servers that `setup` unpacked, one folder a version
        bin/        the Toxiproxy server that `setup` built
        clock/      the library that shifts a server's clock, as `setup` unpacked it
        datadirs/   prepared data folders, one a server version; worlds copy them
        oracle/     Flink's jars and our program around its operator, as `setup --oracle` made them
        kafka/      the jars of a Kafka broker and of Spark's source of it, as `setup --kafka` got them
        runs/       a ledger and a scratch folder for each living run
        ports/      one lock for each reserved port

    All our files on this machine are below `root`, except sockets whose path would be too long there.
    """

    root: Path

    @property
    def servers(self) -> Path:
        return self.root / "servers"

    @property
    def bin(self) -> Path:
        return self.root / "bin"

    @property
    def clock(self) -> Path:
        return self.root / "clock"

    @property
    def datadirs(self) -> Path:
        return self.root / "datadirs"

    @property
    def runs(self) -> Path:
        return self.root / "runs"

    @property
    def ports(self) -> Path:
        return self.root / "ports"

    def make(self) -> None:
        """Create the missing folders, readable by this user only, since data folders contain password hashes."""
        for folder in (self.root, self.servers, self.bin, self.datadirs, self.runs, self.ports):
            try:
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as error:
                raise WorldError(
                    f"cannot make {folder}: {error.strerror}",
                    fix="set FLOODMARK_CACHE to a folder that you may write to",
                ) from error


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
