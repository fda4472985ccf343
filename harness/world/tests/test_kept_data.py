"""A server's data that outlive its world: the line that is printed opens them, and shows every row (T11)."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pymysql
import pytest

from harness.database.endpoint import connect
from harness.database.schema import prepare_database, run_database
from harness.system.clock import Deadline, wait_until
from harness.system.errors import WorldError
from harness.tests.real_world import require_world
from harness.world.local import keep_data
from harness.world.settings import WorldSettings
from harness.world.setup.opening import open_world

NAME = "floodmark_kept"


@contextmanager
def opened_as_told(line: str) -> Iterator[Any]:
    """A cursor on the server that the commands in `line` start and reach."""
    _, start, _, client, _ = line.split("`")
    socket = shlex.split(client)[1].removeprefix("--socket=")
    server = subprocess.Popen(shlex.split(start), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_until(lambda: Path(socket).exists() or server.poll() is not None, deadline=Deadline(60))
        with closing(pymysql.connect(unix_socket=socket, user="root")) as connection:
            yield connection.cursor()
    finally:
        server.terminate()
        server.wait(timeout=60)


@pytest.mark.real
def test_the_line_opens_the_data_that_stay_trust11(tmp_path: Path, own_settings: WorldSettings) -> None:
    require_world("local", "own", settings=own_settings)
    kept = tmp_path / "kept" / "server-1"
    with open_world(
        "local", proxy="own", announce=print, offline=True, settings=own_settings, keeps_in=kept
    ) as world:
        root = world.root.at(world.direct, "")
        with run_database(root, name=NAME, stays=True):
            run = world.root.at(world.direct, NAME)
            prepare_database(run, subtasks=1, rows=[[7, "seven", "a city", 1]])
            with closing(connect(run)) as connection, connection.cursor() as cursor:
                cursor.execute("INSERT INTO output VALUES (NULL, 0, 5, 0, '1', 1, 1)")
                connection.commit()
        line = world.kept

    assert line is not None
    assert world.root.password not in line
    with opened_as_told(line) as cursor:
        cursor.execute(f"SELECT id, v FROM {NAME}.output")
        assert list(cursor.fetchall()) == [(5, "1")]
        cursor.execute(f"SELECT COUNT(*) FROM {NAME}.audit")
        assert cursor.fetchone() == (1,)


def test_data_that_cannot_be_copied_are_an_error_of_the_machine_trust11(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "taken").mkdir()

    with pytest.raises(WorldError, match="cannot keep the server's data"):
        keep_data(tmp_path / "data", tmp_path / "taken")
