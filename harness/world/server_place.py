"""What a local server lives on: its data folder, on a small disk if a fault shall fill it, and the clock it goes by.

Invariant: a server gets these extras only if a fault to come needs them, for they cost time (a clock) and room (a
disk), and only if they can be had; what it cannot have, its world lacks, and says how to have it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.world.data_folder import copy_data_folder, folder_bytes
from harness.world.ledger import Ledger
from harness.world.server_clock import ShiftedClock, find_clock_library
from harness.world.server_program import ServerProgram
from harness.world.settings import WorldSettings
from harness.world.small_disk import SMALL_DISK_ROOM_BYTES, Ballast, mount_small_disk, no_small_disk

__all__ = ["ServerPlace", "local_server_lacks", "prepare_place"]

BALLAST = "floodmark-ballast"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPlace:
    """What one server was given."""

    data: Path
    ballast: Ballast | None
    """None: its disk is as large as the machine's."""
    clock: ShiftedClock | None
    """None: it goes by the machine's clock."""

    @property
    def environment(self) -> Mapping[str, str]:
        """What it must be started with."""
        return self.clock.environment() if self.clock else {}


def prepare_place(
    prepared: Path, *, needs: frozenset[str], settings: WorldSettings, ledger: Ledger
) -> ServerPlace:
    """Copy the prepared folder to where the server will run; what is needed and cannot be had is left out."""
    clock = _clock(settings, ledger) if "server-clock" in needs else None
    if "small-disk" not in needs or no_small_disk():
        data = ledger.folder / "data"
        copy_data_folder(prepared, data)
        return ServerPlace(data=data, ballast=None, clock=clock)
    disk = ledger.folder / "disk"
    mount_small_disk(disk, size_bytes=folder_bytes(prepared) + SMALL_DISK_ROOM_BYTES, ledger=ledger)
    copy_data_folder(prepared, disk / "data")
    return ServerPlace(data=disk / "data", ballast=Ballast(path=disk / BALLAST), clock=clock)


def local_server_lacks(server: ServerProgram, *, settings: WorldSettings) -> dict[str, str]:
    """For each ability that a local world with this server cannot have, what a fault needs instead."""
    lacks = {}
    if server.is_mariadb:
        here = f"a MySQL server, and the one here is {server.title}"
        lacks["offline-mode"] = f"{here}: run with --world containers, or name a mysqld in FLOODMARK_MYSQLD"
    if no_small_disk():
        disk = f"a small disk for the server, and {no_small_disk()}"
        lacks["small-disk"] = f"{disk}: run as root, or with --world containers"
    if find_clock_library(settings) is None:
        lacks["server-clock"] = "the library that shifts a server's clock: `floodmark setup` gets it"
    return lacks


def _clock(settings: WorldSettings, ledger: Ledger) -> ShiftedClock | None:
    library = find_clock_library(settings)
    if library is None:
        return None
    clock = ShiftedClock(library=library, file=ledger.folder / "server.clock")
    clock.shift(0)
    return clock
