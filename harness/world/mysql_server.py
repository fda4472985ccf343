"""A database server as a child process: a copied data folder, a free port, users of this world only.

Invariants: it listens on loopback only; its passwords are generated for this world and reach it in a private file that
is deleted before the world opens, never on a command line or in a log; an acknowledged commit survives a kill.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from harness.system.child import Child
from harness.world.ledger import LOOPBACK, Ledger
from harness.world.server_place import redo_option
from harness.world.server_program import ServerProgram
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
                *server_options(needs=needs, server_id=server_id),
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


def server_options(*, needs: frozenset[str] = frozenset(), server_id: int = 1) -> tuple[str, ...]:
    """Options for the servers of both worlds (`docs/reference/references.md`, Measured)."""
    logs = not needs.isdisjoint({BINLOG, REPLICA})
    return (
        "--performance-schema=OFF",  # halves the start
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
