"""`floodmark setup` uses what is installed, says each step, and fails with a fix where it can do nothing."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

from harness.cli.setup import setup
from harness.system.errors import WorldError
from harness.world import containers, server_program
from harness.world.mysql_server import prepared_name
from harness.world.server_program import find_server
from harness.world.settings import WorldSettings

MARIADB = "mariadbd  Ver 10.11.19-MariaDB for debian-linux-gnu"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on a bare machine's PATH, empty; no engine; a cache of its own."""
    programs = tmp_path / "programs"
    programs.mkdir()
    monkeypatch.setattr(server_program, "SYSTEM_FOLDERS", str(programs))
    monkeypatch.setattr(containers, "USUAL_SOCKET", tmp_path / "no-engine")
    for name in ("DOCKER_HOST", "FLOODMARK_MYSQLD", "FLOODMARK_WORLD"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("FLOODMARK_CACHE", str(tmp_path / "cache"))
    return programs


def program(folder: Path, name: str, says: str) -> None:
    """A program that says something, whatever it is asked."""
    (folder / name).write_text(f"#!/bin/sh\necho '{says}'\n")
    (folder / name).chmod(0o755)


def test_what_is_there_already_is_used_and_said(machine: Path) -> None:
    program(machine, "mariadbd", MARIADB)
    program(machine, "toxiproxy-server", "")
    settings = WorldSettings.from_environment()
    (settings.places.datadirs / prepared_name(find_server(settings))).mkdir(parents=True)

    result = CliRunner().invoke(setup, standalone_mode=False)

    things = [line.partition(":")[0] for line in result.stdout.splitlines()]
    assert things == ["database server", "proxy", "data folder", "server's clock"]
    assert result.stdout.count("already there") == 3


def test_with_our_own_proxy_asked_for_no_toxiproxy_is_looked_for_or_built(machine: Path) -> None:
    program(machine, "mariadbd", MARIADB)
    settings = WorldSettings.from_environment()
    (settings.places.datadirs / prepared_name(find_server(settings))).mkdir(parents=True)

    result = CliRunner().invoke(setup, ["--proxy", "own"], standalone_mode=False)

    things = [line.partition(":")[0] for line in result.stdout.splitlines()]
    assert things == ["database server", "data folder", "server's clock"]


def test_without_a_servers_source_the_error_says_what_else_helps(machine: Path) -> None:
    result = CliRunner().invoke(setup, standalone_mode=False)

    assert isinstance(result.exception, WorldError)
    assert "Debian" in result.exception.what
    assert "FLOODMARK_MYSQLD" in result.exception.fix
    assert machine.exists()


def test_without_go_our_own_proxy_serves_and_setup_says_so(
    machine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(machine, "mariadbd", MARIADB)
    monkeypatch.setattr("harness.world.proxy_program.GO_FOLDER", str(machine))
    settings = WorldSettings.from_environment()
    (settings.places.datadirs / prepared_name(find_server(settings))).mkdir(parents=True)

    result = CliRunner().invoke(setup, standalone_mode=False)

    assert result.exception is None
    (line,) = [line for line in result.stdout.splitlines() if line.startswith("proxy:")]
    assert "our own serves" in line
    assert "there is no go" in line


@pytest.mark.parametrize("options", [[], ["--offline-images"]])
def test_containers_without_an_engine_are_an_error_with_a_fix(machine: Path, options: list[str]) -> None:
    result = CliRunner().invoke(setup, ["--world", "containers", *options], standalone_mode=False)

    assert isinstance(result.exception, WorldError)
    assert "no container engine" in result.exception.what
    assert machine.exists()
