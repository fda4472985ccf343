"""`find_oracle` gives a command that can be run, or says what to set up."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.conform.oracle import program
from harness.conform.oracle.program import SETUP, archive_of, find_oracle, program_jar
from harness.conform.oracle.tests.machine import bare_machine, put_flink, put_program
from harness.system.errors import WorldError
from harness.world.settings import WorldSettings


def put_program_jar(settings: WorldSettings) -> Path:
    jar = program_jar(settings)
    jar.parent.mkdir(parents=True)
    jar.touch()
    return jar


def test_without_java_the_error_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(WorldError, match="no java on the PATH") as caught:
        find_oracle(bare_machine(tmp_path))

    assert "default-jdk-headless" in caught.value.fix
    assert SETUP in caught.value.fix


def test_without_flink_or_without_the_program_setup_is_named(tmp_path: Path) -> None:
    machine = bare_machine(tmp_path)
    put_program(machine, "java", "")
    with pytest.raises(WorldError, match="no Flink 2.3.0") as caught:
        find_oracle(machine)
    assert caught.value.fix == SETUP

    put_flink(machine)
    with pytest.raises(WorldError, match="not compiled") as caught:
        find_oracle(machine)
    assert caught.value.fix == SETUP


def test_the_command_runs_our_program_before_flinks_jar(tmp_path: Path) -> None:
    machine = bare_machine(tmp_path)
    java = put_program(machine, "java", "")
    flink, ours = put_flink(machine), put_program_jar(machine)

    command = find_oracle(machine)

    assert command[0] == str(java)
    assert command[-3:] == ["-cp", f"{ours}:{flink}", program.MAIN]
    assert not [word for word in command if "SharedArchiveFile" in word]

    archive_of(ours).touch()

    assert f"-XX:SharedArchiveFile={archive_of(ours)}" in find_oracle(machine)


def test_a_changed_source_is_another_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = bare_machine(tmp_path)
    put_program(machine, "java", "")
    put_flink(machine)
    monkeypatch.setattr(program, "SOURCES", tmp_path)
    (tmp_path / "Sut.java").write_text("class Sut {}")
    put_program_jar(machine)
    assert find_oracle(machine)

    (tmp_path / "Sut.java").write_text("final class Sut {}")

    with pytest.raises(WorldError, match="sources have changed"):
        find_oracle(machine)


def test_our_java_files_fit_a_sitting_and_say_what_they_are() -> None:
    """The rules of `harness/tests/tidy.py` that hold for any language."""
    for source in program.sources():
        text = source.read_text()
        assert len(text.splitlines()) <= 400, source
        assert "\n/**" in text, f"{source} does not say what it is"
        assert "\t" not in text, source
        assert max(map(len, text.splitlines())) <= 120, source
