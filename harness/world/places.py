"""Where Floodmark keeps what outlives a run (the cache) and what a run must not leave behind (the state).

    servers/    database servers that `setup` unpacked, one folder a version
    bin/        the proxy's server that `setup` built
    clock/      the library by which a server's clock is shifted, as `setup` unpacked it
    datadirs/   prepared data folders, one a server version; worlds copy them
    runs/       a ledger and a scratch folder for each living run
    ports/      one lock a reserved port

Invariant: everything of ours on this machine's disk is under `root`, except sockets whose path would be too
long.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harness.errors import WorldError

__all__ = ["Places"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """The folders under one root; see the module."""

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
        """What shifts a server's clock."""
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
        """Create what is missing; private, for data folders hold passwords' hashes."""
        for folder in (self.root, self.servers, self.bin, self.datadirs, self.runs, self.ports):
            try:
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            except OSError as error:
                raise WorldError(
                    f"cannot make {folder}: {error.strerror}",
                    fix="set FLOODMARK_CACHE to a folder that you may write to",
                ) from error
