"""What a local server gets: a copied data folder, a small disk if a fault fills it, a clock that can be shifted.

A small disk (a file system in memory) or a shifted clock is set up only if a fault needs it and the machine can; what
is missing is in the world's `lacks` with a remedy. A mount is in the ledger before it exists, so it is always
unmounted.
"""

from __future__ import annotations

import os
import platform
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.world.data_folder import copy_data_folder, folder_bytes
from harness.world.ledger import Ledger
from harness.world.processes import run_to_end
from harness.world.server_clock import ShiftedClock, find_clock_library
from harness.world.server_program import ServerProgram
from harness.world.settings import WorldSettings

SMALL_DISK_ROOM_BYTES = 96 * 1024 * 1024
"""Free space on a small disk before a fault fills it; the data folder's size is added."""
MOUNT_LIMIT_S = 10.0
CAN_MOUNT = 1 << 21
CHUNK_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Ballast:
    """A file next to the server's data that takes the free space; the server ignores it."""

    path: Path

    def fill(self) -> int:
        """Fill the disk to the last byte; returns the bytes taken."""
        before = shutil.disk_usage(self.path.parent).free
        with self.path.open("ab", buffering=0) as file:
            for size in (CHUNK_BYTES, 4096, 1):
                _write_until_full(file.write, bytes(size))
        return before - shutil.disk_usage(self.path.parent).free

    def remove(self) -> None:
        """Free the space again."""
        self.path.unlink(missing_ok=True)


def no_small_disk() -> str:
    """Why no small disk can be mounted here; empty if one can."""
    if platform.system() != "Linux":
        return "a file system in memory is mounted on Linux only"
    # Root in a container often lacks CAP_SYS_ADMIN.
    status = Path("/proc/self/status").read_text().splitlines()
    held = next((int(line.split()[1], 16) for line in status if line.startswith("CapEff:")), 0)
    if os.geteuid() != 0 or not held & CAN_MOUNT or shutil.which("mount") is None:
        return "only root may mount a small disk for the server's data"
    return ""


def mount_small_disk(folder: Path, *, size_bytes: int, ledger: Ledger) -> None:
    """Mount a file system of `size_bytes` at `folder` until the ledger is closed."""
    folder.mkdir(mode=0o700)
    ledger.note_mount(folder)
    run_to_end(
        ["mount", "-t", "tmpfs", "-o", f"size={size_bytes},mode=0700", "floodmark", str(folder)],
        what=f"mounting a small disk of {size_bytes >> 20} MB at {folder}",
        limit_s=MOUNT_LIMIT_S,
        fix="run as root outside a container, or leave out the faults that fill the disk",
    )


def _write_until_full(write: Callable[[bytes], int | None], piece: bytes) -> None:
    """Each write takes free space, so the loop ends."""
    while True:
        try:
            written = write(piece)
        except OSError:  # ENOSPC, or another error after which nothing can be written
            return
        if not written:
            return


BALLAST = "floodmark-ballast"


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerPlace:
    """What one server got."""

    data: Path
    ballast: Ballast | None
    """None: its data is on the machine's disk."""
    clock: ShiftedClock | None
    """None: it uses the machine's clock."""

    @property
    def environment(self) -> Mapping[str, str]:
        """Environment variables for its start."""
        return self.clock.environment() if self.clock else {}


def replica_place(prepared: Path, *, ledger: Ledger) -> ServerPlace:
    """The place of a second server, with nothing of its own that a fault needs."""
    data = ledger.folder / "replica-data"
    copy_data_folder(prepared, data)
    return ServerPlace(data=data, ballast=None, clock=None)


def prepare_place(
    prepared: Path, *, needs: frozenset[str], settings: WorldSettings, ledger: Ledger
) -> ServerPlace:
    """Copy the prepared folder to the server's place; a need that this machine cannot satisfy is left out."""
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
    """For each ability that a local world with this server lacks: what would have it."""
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
