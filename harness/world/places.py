"""The folders of Floodmark's cache (kept between runs) and of its state (removed with a run).

    servers/    database servers that `setup` unpacked, one folder a version
    bin/        the Toxiproxy server that `setup` built
    clock/      the library that shifts a server's clock, as `setup` unpacked it
    datadirs/   prepared data folders, one a server version; worlds copy them
    oracle/     Flink's jars and our program around its operator, as `setup --oracle` made them
    kafka/      the jars of a Kafka broker and of Spark's source of it, as `setup --kafka` got them
    runs/       a ledger and a scratch folder for each living run
    ports/      one lock for each reserved port

Invariant: all our files on this machine are below `root`, except sockets whose path would be too long there.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness.system.errors import WorldError


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The folders below one root; see the module."""

    root: Path

    @property
    def servers(self) -> Path:
        """Unpacked database servers."""
        return self.root / "servers"

    @property
    def bin(self) -> Path:
        """Built programs."""
        return self.root / "bin"

    @property
    def clock(self) -> Path:
        """The library that shifts a server's clock."""
        return self.root / "clock"

    @property
    def datadirs(self) -> Path:
        """Prepared data folders."""
        return self.root / "datadirs"

    @property
    def runs(self) -> Path:
        """Ledgers and scratch folders of living runs."""
        return self.root / "runs"

    @property
    def ports(self) -> Path:
        """Locks of reserved ports."""
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
