"""The data folder of a local server that outlives its world (`--keep database`), and how to open it.

Invariant: the folder is copied after the server was shut down in order, so any server of its version opens it; the
command needs no password and lets nobody in over the network.
"""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
from pathlib import Path

from harness.system.errors import WorldError
from harness.world.data_folder import redo_option
from harness.world.mysql_server import SOCKET_PATH_MAX
from harness.world.server_program import ServerProgram


def keep_data(data: Path, folder: Path) -> None:
    """Copy the data folder of a server that has ended to `folder`. Raises WorldError if that fails."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(data, folder)
    except (OSError, shutil.Error) as error:
        message = f"cannot keep the server's data in {folder}: {error}"
        raise WorldError(
            message, fix="free some space there, or choose another folder with --report"
        ) from error


def how_to_open(program: ServerProgram, folder: Path) -> str:
    """One line: what starts a server on `folder`, and what connects to it."""
    socket = folder / "open.sock"
    if len(os.fsencode(socket)) > SOCKET_PATH_MAX:
        socket = Path(tempfile.gettempdir()) / f"floodmark-kept-{os.getpid()}.sock"
    start = shlex.join(
        [
            *(
                ["env", *(f"{name}={value}" for name, value in program.environment.items())]
                * bool(program.environment)
            ),
            str(program.program),
            "--no-defaults",
            *program.location_options(),
            *program.user_option(),
            f"--datadir={folder}",
            f"--socket={socket}",
            f"--pid-file={folder / 'open.pid'}",
            redo_option(program),
            "--skip-networking",
            "--skip-grant-tables",
            *(() if program.is_mariadb else ("--mysqlx=OFF",)),
        ]
    )
    client = "mariadb" if program.is_mariadb else "mysql"
    return (
        f"{folder}: start it with `{start}`, then open it with `{client} --socket={shlex.quote(str(socket))}`"
    )
