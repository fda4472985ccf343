"""`floodmark doctor` says what works here, gives each fault its fix, and answers by its exit code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from harness.cli.doctor import doctor
from harness.system.errors import Exit
from harness.world import containers, server_program

JAVA = 'openjdk version "{version}" 2025-04-15'
MARIADB = "mariadbd  Ver 10.11.19-MariaDB for debian-linux-gnu"


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder on a bare machine's PATH, empty; no engine; a cache in the folder."""
    programs = tmp_path / "programs"
    programs.mkdir()
    monkeypatch.setattr(server_program, "SYSTEM_FOLDERS", str(programs))
    monkeypatch.setattr(containers, "USUAL_SOCKET", tmp_path / "no-engine")
    for name in ("JAVA_HOME", "DOCKER_HOST", "FLOODMARK_MYSQLD", "FLOODMARK_PORTS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.setenv("FLOODMARK_CACHE", str(tmp_path / "cache"))
    return programs


def program(folder: Path, name: str, says: str) -> None:
    """A program that says something, whatever it is asked."""
    (folder / name).write_text(f"#!/bin/sh\necho '{says}'\necho '{says}' >&2\n")
    (folder / name).chmod(0o755)


def examined(*arguments: str) -> tuple[Result, dict[str, Any]]:
    """The command's result, and its checks by name."""
    result = CliRunner().invoke(doctor, ["--format", "json", *arguments], standalone_mode=False)
    return result, {check["name"]: check for check in json.loads(result.stdout)["checks"]}


def test_a_bare_machine_is_not_well_and_each_lack_has_its_fix(machine: Path) -> None:
    result, checks = examined()

    assert result.return_value is Exit.ENVIRONMENT
    assert checks["java"]["state"] == "FAIL"
    assert checks["worlds"]["state"] == "FAIL"
    assert checks["levels"]["says"] == "run here: sim; not: live, job, job-sim, spark"
    assert all(checks[name]["fix"] for name in ("java", "engine", "server", "worlds"))
    assert not list(machine.parent.glob("cache")), "looking changes nothing"


def test_java_and_a_local_world_are_enough(machine: Path) -> None:
    program(machine, "java", JAVA.format(version="17.0.15"))
    program(machine, "mariadbd", MARIADB)

    result, checks = examined()

    assert result.return_value is Exit.HOLD
    assert checks["server"]["says"].startswith("MariaDB 10.11.19")
    assert checks["worlds"]["says"] == "can be opened: local"
    assert checks["levels"]["says"].startswith("run here: sim, live, job")
    assert checks["engine"]["state"] == "warn"
    assert checks["proxy"]["says"].startswith("our own")


@pytest.mark.parametrize(
    ("level", "has_server", "code"),
    [
        ("sim", False, Exit.HOLD),
        ("live", False, Exit.ENVIRONMENT),
        ("live", True, Exit.HOLD),
        ("spark", True, Exit.ENVIRONMENT),
    ],
)
def test_a_level_is_judged_by_what_it_needs_and_only_that_is_a_failure(
    machine: Path, *, level: str, has_server: bool, code: Exit
) -> None:
    """There is no Java."""
    if has_server:
        program(machine, "mariadbd", MARIADB)

    result, checks = examined("--level", level)

    assert result.return_value is code
    assert any(check["state"] == "FAIL" for check in checks.values()) == (code is Exit.ENVIRONMENT)
    assert checks["levels"]["says"].endswith(f"; judged: {level}")
    assert (checks["java"]["state"] == "FAIL") == (level == "spark")


@pytest.mark.parametrize(
    ("version", "state"), [("1.8.0_402", "FAIL"), ("11.0.2", "FAIL"), ("17.0.1", "ok"), ("21", "ok")]
)
def test_java_must_be_17_or_later(machine: Path, version: str, state: str) -> None:
    program(machine, "java", JAVA.format(version=version))

    assert examined()[1]["java"]["state"] == state


def test_the_lines_for_people_say_the_same(machine: Path) -> None:
    lines = CliRunner().invoke(doctor, ["--no-color"], standalone_mode=False).stdout.splitlines()

    assert any(line.startswith("FAIL  java ") for line in lines)
    assert any(line.strip() == "fix: floodmark setup" for line in lines)
    assert machine.exists()
