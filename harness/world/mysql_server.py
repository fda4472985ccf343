"""A database server as a child process: a copied data folder, a free port, users of this world only.

A prepared data folder is initialised once for each server version (three seconds) and copied for every world: it is in
the cache complete or not at all, and no server ever runs on it. A small disk (a file system in memory) or a clock that
can be shifted is set up only if a fault needs it and the machine can; what is missing is in the world's `lacks` with a
remedy. Invariants: a mount is in the ledger before it exists, so it is always unmounted; the server listens on
loopback only; its passwords are generated for this world and reach it in a private file that is deleted before the
world opens, never on a command line or in a log; an acknowledged commit survives a kill.
"""

from __future__ import annotations

import os
import platform
import shutil
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from harness.system.child import Child, run_to_end
from harness.system.clock import Deadline
from harness.system.errors import WorldError
from harness.world.ledger import LOOPBACK, Ledger
from harness.world.server_program import ServerProgram, ShiftedClock, find_clock_library
from harness.world.settings import Places, WorldSettings
from harness.world.world import DATABASE, Address, Credentials

SOCKET_PATH_MAX = 107
"""Longest path of a Unix socket in bytes, without the terminating zero."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MysqlServer:
    """A started server; `proof.py` checks whether it is ready."""

    process: Child
    address: Address
    secrets: Path
    """The file with its users' passwords; removed once the server is ready."""
    again: Callable[[], Child]
    """Starts the server again on the same port and data, which contain the users by then."""
    socket: Path
    """The socket that a killed server leaves; it must be removed before the next start."""


def start_server(
    program: ServerProgram,
    *,
    data: Path,
    port: int,
    app: Credentials,
    root: Credentials,
    ledger: Ledger,
    environment: Mapping[str, str],
    needs: frozenset[str] = frozenset(),
    name: str = "server",
    server_id: int = 1,
) -> MysqlServer:
    """Start it; returns before it is ready.

    `environment` is added to the program's own; `name` is the beginning of its files' names.
    """
    secrets = ledger.folder / f"{name}-users.sql"
    statements = user_statements(app=app, root=root, mariadb=program.is_mariadb)
    private = os.open(secrets, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(private, "w") as stream:
        stream.writelines(f"{line};\n" for line in statements)
    socket = _socket_path(ledger, name)

    def started(*options: str) -> Child:
        return ledger.start(
            [
                *(str(program.program), "--no-defaults", *program.location_options(), *program.user_option()),
                f"--datadir={data}",
                *options,
                *server_options(mariadb=program.is_mariadb, needs=needs, server_id=server_id),
                *(f"--port={port}", f"--bind-address={LOOPBACK}", f"--socket={socket}"),
                f"--pid-file={ledger.folder / f'{name}.pid'}",
                f"--tmpdir={ledger.folder}",
                redo_option(program),
                *(() if program.is_mariadb else ("--secure-file-priv=NULL",)),
            ],
            name=program.title,
            log=ledger.folder / f"{name}.log",
            environment={**program.environment, **environment},
        )

    return MysqlServer(
        process=started(f"--init-file={secrets}"),
        address=Address(host=LOOPBACK, port=port),
        secrets=secrets,
        again=started,
        socket=socket,
    )


BINLOG = "binlog"
"""The ability to keep a log of every change of every row, which is read to see what became visible, and when."""
REPLICA = "replica"
"""The ability to have a second server that follows the first, for which both keep the log of changes."""
LOCK_WAITS = "lock-waits"
"""The ability to say at any time which session waits for a row's lock, and for whom."""
REPLICA_ID = 3
"""The server id of a replica; a reader of the log of changes takes 2."""
_LOG_OF_CHANGES = (
    "--log-bin=binlog",
    "--loose-log-slave-updates=ON",  # a replica's log holds what it got, so it can be promoted
    "--loose-skip-slave-start",  # a replica that was killed follows nobody until it is told to
    "--loose-skip-replica-start",
    "--loose-binlog-format=ROW",
    "--binlog-row-image=FULL",
    "--binlog-row-metadata=FULL",  # the names of the columns
    "--sync-binlog=0",  # a killed process loses nothing, and each commit is one wait less
    "--loose-log-bin-trust-function-creators=1",  # else a user without SUPER may make no trigger
    # The proxy must see the packets of clients that take TLS wherever a server offers it: off in MariaDB, in MySQL.
    "--loose-skip-ssl",
    "--loose-tls-version=",
)


_LOCKS_ALONE = (
    "--performance-schema=ON",
    "--performance-schema-instrument=%=OFF",
    "--performance-schema-consumer-global-instrumentation=OFF",
    "--performance-schema-max-thread-instances=600",
    *(
        f"--performance-schema-{of}=0"
        for of in ("max-table-instances", "max-table-handles", "digests-size", "max-mutex-instances",
                   "max-rwlock-instances", "max-cond-instances", "max-file-instances", "max-memory-classes")
    ),
)  # fmt: skip
"""MySQL's `data_lock_waits` and `threads`, for 25 MB: its monitor of InnoDB leaves out who waits to read (9.7)."""


def server_options(
    *, mariadb: bool, needs: frozenset[str] = frozenset(), server_id: int = 1
) -> tuple[str, ...]:
    """Options for the servers of both worlds (`docs/reference/references.md`, Measured)."""
    logs = not needs.isdisjoint({BINLOG, REPLICA})
    return (
        *(_LOCKS_ALONE if LOCK_WAITS in needs and not mariadb else ("--performance-schema=OFF",)),
        *((f"--server-id={server_id}", *_LOG_OF_CHANGES) if logs else ("--skip-log-bin",)),
        "--skip-name-resolve",
        "--character-set-server=utf8mb4",
        "--innodb-buffer-pool-size=64M",
        "--innodb-flush-log-at-trx-commit=1",  # an acknowledged commit survives a kill
        "--max-connections=500",
        "--loose-mysqlx=OFF",  # loose: MariaDB does not know it and ignores it
    )


def user_statements(*, app: Credentials, root: Credentials, mariadb: bool) -> tuple[str, ...]:
    """Statements for a fresh server: the database, its user, and root over TCP."""
    return (
        f"CREATE DATABASE IF NOT EXISTS `{DATABASE}`",
        f"CREATE USER '{app.user}'@'%' IDENTIFIED BY '{app.password}'",
        *app_grants(app.user, mariadb=mariadb),
        f"ALTER USER 'root'@'localhost' IDENTIFIED BY '{root.password}'",
        f"CREATE USER IF NOT EXISTS 'root'@'127.0.0.1' IDENTIFIED BY '{root.password}'",
        # MariaDB's prepared folders contain this root without a password.
        f"ALTER USER 'root'@'127.0.0.1' IDENTIFIED BY '{root.password}'",
        "GRANT ALL ON *.* TO 'root'@'127.0.0.1' WITH GRANT OPTION",
    )


def app_grants(user: str, *, mariadb: bool) -> tuple[str, ...]:
    """The application's user may do everything in our databases and nothing elsewhere.

    Except for XA RECOVER, which a two-phase sink needs; MariaDB allows it to every user.
    """
    return (
        f"GRANT ALL ON `{DATABASE}`.* TO '{user}'@'%'",
        f"GRANT ALL ON `{DATABASE}\\_%`.* TO '{user}'@'%'",
        *(() if mariadb else (f"GRANT XA_RECOVER_ADMIN ON *.* TO '{user}'@'%'",)),
    )


def _socket_path(ledger: Ledger, name: str) -> Path:
    """In the run's folder, or in the temporary folder if that path is too long for a socket."""
    path = ledger.folder / f"{name}.sock"
    if len(os.fsencode(path)) <= SOCKET_PATH_MAX:
        return path
    short = Path(tempfile.gettempdir()) / f"floodmark-{ledger.run_id}"
    ledger.note_folder(short)
    short.mkdir(mode=0o700, exist_ok=True)
    return short / f"{name}.sock"


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
            for piece in map(bytes, (CHUNK_BYTES, 4096, 1)):
                # Each write takes free space, so the loop ends, at the latest with an error.
                with suppress(OSError):
                    while file.write(piece):
                        pass
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
