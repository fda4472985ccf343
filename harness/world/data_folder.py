"""A prepared, empty data folder for each server version: initialised once, copied for every world.

Initialising takes up to three seconds, a copy a twentieth of that. Invariant: a prepared folder appears in
the cache complete or not at all, and no server ever runs on it; servers run on copies.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from harness.system.clock import Deadline
from harness.system.errors import WorldError
from harness.world.ledger import Ledger
from harness.world.places import Places
from harness.world.processes import run_to_end
from harness.world.server_program import ServerProgram

LAYOUT = 1
"""Increase it when folders are prepared differently, so that cached ones are not used."""
MAKE_LIMIT_S = 120.0
COPY_LIMIT_S = 60.0
REDO_BYTES = 16 * 1024 * 1024
"""Small redo logs keep a world's folder near 100 MB (`docs/reference/references.md`, Measured)."""
HEADROOM_BYTES = 64 * 1024 * 1024
"""Free space that a run needs besides its copy."""


def prepared_name(server: ServerProgram) -> str:
    """The name of a server's prepared folder: `mariadb-10.11.19-1`."""
    return f"{server.flavour.lower()}-{server.version}-{LAYOUT}"


def redo_option(server: ServerProgram) -> str:
    """The option for the redo log's size; with another size than at the initialisation, the start is slow."""
    return (
        f"--innodb-log-file-size={REDO_BYTES}"
        if server.is_mariadb
        else f"--innodb-redo-log-capacity={REDO_BYTES}"
    )


def prepared_data_folder(
    server: ServerProgram, *, places: Places, ledger: Ledger, say: Callable[[str], None]
) -> Path:
    """The prepared folder for `server`; initialised now if it is missing."""
    ready = places.datadirs / prepared_name(server)
    if ready.exists():
        return ready
    deadline = Deadline(MAKE_LIMIT_S)
    # Made under another name and renamed when complete; in the ledger, in case this process is killed.
    making = places.datadirs / f".making-{ledger.run_id}"
    ledger.note_folder(making)
    try:
        _initialise(server, making)
        making.rename(ready)
    except OSError:
        if not ready.exists():  # another run has made an equal folder meanwhile
            raise
    finally:
        shutil.rmtree(making, ignore_errors=True)
    say(f"prepared a data folder for {server.title} in {MAKE_LIMIT_S - deadline.left_s:.1f} s")
    return ready


def copy_data_folder(prepared: Path, target: Path) -> None:
    """Copy a prepared folder for one world; shares blocks (reflink) where the file system can."""
    needed = folder_bytes(prepared) + HEADROOM_BYTES
    free = shutil.disk_usage(target.parent).free
    full = f"{target.parent} has {free >> 20} MB free; a world's data folder needs {needed >> 20} MB"
    fix = "free some space there, or set FLOODMARK_CACHE to a folder on a larger disk"
    if free < needed:
        raise WorldError(f"the disk is full: {full}", fix=fix)
    run_to_end(
        ["cp", "-R", "-p", "--reflink=auto", str(prepared), str(target)],
        what=f"copying the prepared data folder to {target}",
        limit_s=COPY_LIMIT_S,
        fix=fix,
    )


def folder_bytes(folder: Path) -> int:
    """The disk space that the folder's files take."""
    return sum(file.stat().st_blocks * 512 for file in folder.rglob("*") if file.is_file())


def _initialise(server: ServerProgram, folder: Path) -> None:
    """Initialise an empty data folder with the server's own tools."""
    run_to_end(
        _mariadb_command(server, folder) if server.is_mariadb else _mysql_command(server, folder),
        what=f"preparing a data folder for {server.title} in {folder}",
        limit_s=MAKE_LIMIT_S,
        fix="free space there, or set FLOODMARK_MYSQLD to another server",
        environment=server.environment,
    )
    # All copies would share the server's UUID; without the file each start makes a new one.
    (folder / "auto.cnf").unlink(missing_ok=True)


def _mysql_command(server: ServerProgram, folder: Path) -> list[str]:
    return [
        str(server.program),
        "--no-defaults",
        *server.location_options(),
        "--initialize-insecure",
        *server.user_option(),
        f"--datadir={folder}",
        redo_option(server),
    ]


def _mariadb_command(server: ServerProgram, folder: Path) -> list[str]:
    base = ["--basedir=" + str(server.root / "usr")] if server.root else []
    # Of an installed server: in the `bin` next to its `sbin`, or on the PATH.
    folder_of_all = server.root / "usr" if server.root else server.program.resolve().parent.parent
    beside = folder_of_all / "bin" / "mariadb-install-db"
    installer = str(beside) if server.root or beside.exists() else shutil.which(beside.name)
    if installer is None:
        raise WorldError(f"{server.program} has no mariadb-install-db beside it", fix="floodmark setup")
    return [
        installer,
        "--no-defaults",
        *base,
        "--auth-root-authentication-method=normal",
        "--skip-test-db",
        "--skip-name-resolve",
        *server.user_option(),
        f"--datadir={folder}",
        redo_option(server),
    ]
