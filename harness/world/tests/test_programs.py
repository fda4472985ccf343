"""Which server and which proxy this machine has, and what is said where it has none."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.system.errors import UsageError, WorldError
from harness.world import containers, server_program
from harness.world.mysql_server import copy_data_folder, local_server_lacks, prepared_name
from harness.world.proxy_program import find_proxy_program
from harness.world.server_program import MANIFEST, find_server
from harness.world.settings import Places, WorldSettings
from harness.world.setup.opening import WorldAsked, choose_world
from harness.world.setup.provision import provisioning, unpack_server

MYSQL = "/usr/sbin/mysqld  Ver 9.7.4 for Linux on x86_64 (MySQL Community Server - GPL)"
MARIADB = "mariadbd  Ver 10.11.19-MariaDB-0+deb12u1 for debian-linux-gnu on x86_64 (Debian 12)"


@pytest.fixture
def bare(tmp_path: Path, places: Places, monkeypatch: pytest.MonkeyPatch) -> WorldSettings:
    """A machine with nothing: an empty PATH, an empty cache, no engine."""
    monkeypatch.setattr(server_program, "SYSTEM_FOLDERS", str(tmp_path))
    monkeypatch.setattr(containers, "USUAL_SOCKET", tmp_path / "no-engine")
    return WorldSettings(places=places, path=str(tmp_path))


def program(folder: Path, name: str, says: str) -> Path:
    """A program that says something, whatever it is asked."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\necho '{says}'\n")
    path.chmod(0o755)
    return path


def test_a_server_on_the_path_is_taken_and_tells_its_flavour(bare: WorldSettings, tmp_path: Path) -> None:
    program(tmp_path, "mysqld", MYSQL)

    found = find_server(bare)

    assert found.title == "MySQL 9.7.4"
    assert not found.is_mariadb
    assert found.location_options() == ()
    assert prepared_name(found).startswith("mysql-9.7.4-")


def test_a_named_server_wins_over_the_path(bare: WorldSettings, tmp_path: Path) -> None:
    program(tmp_path, "mysqld", MYSQL)
    named = program(tmp_path / "elsewhere", "any-name", MARIADB)

    assert find_server(replace(bare, server=named)).title == "MariaDB 10.11.19"


def test_a_named_server_that_is_none_is_an_error_even_if_another_is_there(
    bare: WorldSettings, tmp_path: Path
) -> None:
    program(tmp_path, "mysqld", MYSQL)
    named = program(tmp_path / "elsewhere", "cat", "meow")

    with pytest.raises(WorldError, match="FLOODMARK_MYSQLD"):
        find_server(replace(bare, server=named))


def test_an_unpacked_server_knows_where_its_files_are(bare: WorldSettings) -> None:
    home = bare.places.servers / "mariadb-10.11.19"
    program(home / "usr" / "sbin", "mariadbd", MARIADB)
    (home / "usr" / "lib" / "x86_64-linux-gnu").mkdir(parents=True)
    (home / MANIFEST).write_text('{"program": "usr/sbin/mariadbd"}')

    found = find_server(bare)

    assert f"--basedir={home}/usr" in found.location_options()
    assert found.environment["LD_LIBRARY_PATH"].startswith(f"{home}/usr/lib/x86_64-linux-gnu:")


def test_a_half_unpacked_server_is_not_found(bare: WorldSettings) -> None:
    program(bare.places.servers / ".unpacking-x" / "root" / "usr" / "sbin", "mariadbd", MARIADB)

    with pytest.raises(WorldError, match="no database server"):
        find_server(bare)


def test_the_proxy_of_the_path_wins_over_the_built_one(bare: WorldSettings, tmp_path: Path) -> None:
    built = program(bare.places.bin, "toxiproxy-server", "")
    assert find_proxy_program(bare) == built

    installed = program(tmp_path, "toxiproxy-server", "")
    assert find_proxy_program(bare) == installed


def test_a_local_world_names_all_that_is_missing_and_the_command_that_gets_it(bare: WorldSettings) -> None:
    with pytest.raises(WorldError, match=r"no database server.*no Toxiproxy") as caught:
        choose_world("local", WorldAsked(proxy="toxiproxy", settings=bare, offline=True, say=print))

    assert caught.value.fix == "floodmark setup"
    assert caught.value.exit_code == 11


def test_auto_with_nothing_says_what_both_worlds_lack(bare: WorldSettings) -> None:
    with pytest.raises(WorldError, match=r"Containers: no container engine.*Local: no database server"):
        choose_world("auto", WorldAsked(settings=bare, offline=True, say=print))


def test_auto_without_an_engine_takes_the_local_world_and_says_why(
    bare: WorldSettings, tmp_path: Path
) -> None:
    program(tmp_path, "mysqld", MYSQL)
    program(tmp_path, "toxiproxy-server", "")

    choice = choose_world("auto", WorldAsked(settings=bare, offline=True, say=print))

    assert choice.why.startswith("local world (auto): no container engine")


def test_auto_goes_local_without_asking_an_engine_where_a_fault_shifts_the_servers_clock(
    bare: WorldSettings, tmp_path: Path
) -> None:
    program(tmp_path, "mariadbd", MARIADB)

    choice = choose_world(
        "auto", WorldAsked(needs=frozenset({"server-clock"}), settings=bare, offline=True, say=print)
    )

    assert choice.why.startswith("local world (auto): a fault shifts the server's clock")


@pytest.mark.parametrize(
    ("version", "lacks"), [(MARIADB, {"offline-mode", "server-clock"}), (MYSQL, {"server-clock"})]
)
def test_what_a_local_server_lacks_depends_on_its_flavour_and_on_what_setup_got(
    bare: WorldSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, lacks: set[str]
) -> None:
    monkeypatch.setattr("harness.world.server_program.SYSTEM_FOLDERS", ())
    monkeypatch.setattr("harness.world.mysql_server.no_small_disk", lambda: "")
    program(tmp_path, "mysqld", version)

    found = local_server_lacks(find_server(bare), settings=bare)

    assert found.keys() == lacks
    assert "`floodmark setup` gets it" in found["server-clock"]


@pytest.mark.parametrize(
    ("asked", "needs", "installed", "says"),
    [
        ("auto", (), ["toxiproxy-server"], "Toxiproxy (auto: it is here)"),
        ("auto", (), [], "our own proxy (auto: no toxiproxy-server is on the PATH)"),
        ("auto", ("packets",), ["toxiproxy-server"], "our own proxy (auto: a fault needs MySQL packets)"),
        ("own", (), ["toxiproxy-server"], "our own proxy (asked for)"),
        ("toxiproxy", (), ["toxiproxy-server"], "Toxiproxy (asked for)"),
    ],
)
def test_which_proxy_was_taken_and_why_is_said(
    bare: WorldSettings,
    tmp_path: Path,
    asked: str,
    needs: tuple[str, ...],
    installed: list[str],
    says: str,
) -> None:
    for name in ["mariadbd", *installed]:
        program(tmp_path, name, MARIADB)

    choice = choose_world(
        "local", WorldAsked(proxy=asked, needs=frozenset(needs), settings=bare, offline=True, say=print)
    )

    assert choice.why.startswith(f"local world: asked for; {says}")


def test_toxiproxy_that_was_asked_for_is_refused_where_a_fault_needs_packets(bare: WorldSettings) -> None:
    with pytest.raises(UsageError, match="MySQL packets") as caught:
        choose_world(
            "local",
            WorldAsked(
                proxy="toxiproxy", needs=frozenset({"packets"}), settings=bare, offline=True, say=print
            ),
        )

    assert "--proxy own" in caught.value.fix


def test_containers_without_an_engine_never_fall_back(bare: WorldSettings, tmp_path: Path) -> None:
    program(tmp_path, "mysqld", MYSQL)
    program(tmp_path, "toxiproxy-server", "")

    with pytest.raises(WorldError, match="no container engine") as caught:
        choose_world("containers", WorldAsked(settings=bare, offline=True, say=print))

    assert "--world local" in caught.value.fix


def test_a_world_that_does_not_exist_is_a_usage_error(bare: WorldSettings) -> None:
    with pytest.raises(UsageError, match="auto, containers, local"):
        choose_world("moon", WorldAsked(settings=bare, offline=True, say=print))


def test_unpacking_a_server_needs_debians_tools_and_says_what_else_helps(bare: WorldSettings) -> None:
    with (
        pytest.raises(WorldError, match="no apt-get and no dpkg-deb") as caught,
        provisioning(bare, rebuild=False, say=print) as task,
    ):
        unpack_server(task)

    assert "FLOODMARK_MYSQLD" in caught.value.fix


def test_a_full_disk_is_told_before_it_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "prepared").mkdir()
    (tmp_path / "prepared" / "ibdata1").write_bytes(b"x" * 4096)
    monkeypatch.setattr(shutil, "disk_usage", lambda _path: SimpleNamespace(free=1 << 20))

    with pytest.raises(WorldError, match=r"disk is full.*1 MB free") as caught:
        copy_data_folder(tmp_path / "prepared", tmp_path / "data")

    assert str(tmp_path) in caught.value.what
    assert "FLOODMARK_CACHE" in caught.value.fix
    assert not (tmp_path / "data").exists()


def test_a_copied_data_folder_is_whole(tmp_path: Path) -> None:
    (tmp_path / "prepared" / "mysql").mkdir(parents=True)
    (tmp_path / "prepared" / "mysql" / "table").write_bytes(b"rows")

    copy_data_folder(tmp_path / "prepared", tmp_path / "data")

    assert (tmp_path / "data" / "mysql" / "table").read_bytes() == b"rows"
