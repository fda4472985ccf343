"""`floodmark setup --oracle` says each step, does nothing twice, and leaves nothing by halves."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from harness.cli.setup import setup
from harness.conform.oracle import program
from harness.conform.oracle.program import FLINKS, archive_of, find_oracle, program_jar, provide_oracle
from harness.conform.oracle.tests.machine import (
    ANSWERS_EACH_LINE,
    COMPILES,
    bare_machine,
    put_flink,
    put_program,
)
from harness.system.child import run_to_end
from harness.system.errors import WorldError
from harness.world.settings import WorldSettings
from harness.world.setup.provision import provisioning


def steps(settings: WorldSettings, *, rebuild: bool = False) -> list[str]:
    """What setup says it did."""
    with provisioning(settings, rebuild=rebuild, say=lambda sentence: None) as task:
        return [f"{step.thing}: {step.outcome}" for step in provide_oracle(task)]


def pip_that_brings(*names: str) -> Any:
    """A `run_to_end` whose pip leaves these files in the folder that it is told."""

    def run(command: Sequence[str], **options: Any) -> str:
        if "--target" not in command:
            return run_to_end(command, **options)
        folder = Path(command[command.index("--target") + 1]) / "pyflink" / "lib"
        folder.mkdir(parents=True)
        for name in names:
            (folder / name).write_bytes(b"a jar")
        return ""

    return run


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WorldSettings:
    """A machine with a Java that answers, a compiler, and a package index that has Flink."""
    settings = bare_machine(tmp_path)
    put_program(settings, "java", ANSWERS_EACH_LINE)
    put_program(settings, "javac", COMPILES)
    monkeypatch.setattr(program, "run_to_end", pip_that_brings("flink-dist-2.3.0.jar"))
    return settings


def test_what_lacks_is_got_and_then_the_oracle_is_found(machine: WorldSettings) -> None:
    flink, oracle = steps(machine)

    assert flink.startswith("Flink 2.3.0: installed ")
    assert oracle.startswith("oracle: compiled ")
    assert find_oracle(machine)
    assert not list(machine.places.runs.iterdir()), "nothing is left of the work"


def test_what_is_there_already_is_used_and_said(machine: WorldSettings) -> None:
    steps(machine)
    archive_of(program_jar(machine)).touch()

    assert all(step.endswith("already there") for step in steps(machine))
    assert not [step for step in steps(machine, rebuild=True) if step.endswith("already there")]


def test_without_a_compiler_the_error_names_the_package(machine: WorldSettings) -> None:
    (Path(machine.path) / "javac").unlink()

    with pytest.raises(WorldError, match="no javac on the PATH") as caught:
        steps(machine)

    assert "default-jdk-headless" in caught.value.fix


def test_without_java_nothing_large_is_fetched(machine: WorldSettings) -> None:
    (Path(machine.path) / "java").unlink()

    with pytest.raises(WorldError, match="no java on the PATH"):
        steps(machine)

    assert not program.oracle_folder(machine.places).exists()


def test_a_compiler_that_fails_leaves_no_program(machine: WorldSettings) -> None:
    put_program(machine, "javac", "echo 'Run.java:1: error: what is this?'; exit 1")

    with pytest.raises(WorldError, match="what is this"):
        steps(machine)

    assert not program_jar(machine).parent.exists()


def test_a_program_that_cannot_get_through_its_rehearsal_is_an_error(machine: WorldSettings) -> None:
    put_program(machine, "java", "echo 'UnsupportedClassVersionError'")

    with pytest.raises(WorldError, match="rehearsal.*UnsupportedClassVersionError") as caught:
        steps(machine)

    assert "17 or later" in caught.value.fix
    with pytest.raises(WorldError, match="not compiled"):
        find_oracle(machine)


def test_a_package_without_the_jar_is_an_error(
    machine: WorldSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "run_to_end", pip_that_brings("flink-dist-9.jar"))

    with pytest.raises(WorldError, match="without flink-dist-2.3.0.jar"):
        steps(machine)


def test_a_setup_that_was_slower_than_another_takes_the_others(
    machine: WorldSettings, tmp_path: Path
) -> None:
    jar = put_flink(machine)
    fresh = tmp_path / "fresh"
    fresh.mkdir()

    program.adopt(fresh, jar.parents[2])

    assert jar.exists()


def test_the_command_provides_the_oracle_and_nothing_else(
    machine: WorldSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_flink(machine)
    monkeypatch.setenv("FLOODMARK_CACHE", str(machine.places.root))
    monkeypatch.setenv("PATH", f"{machine.path}:/usr/bin:/bin")

    result = CliRunner().invoke(setup, ["--oracle"], standalone_mode=False)

    assert result.exception is None
    assert [line.partition(":")[0] for line in result.stdout.splitlines()] == ["Flink 2.3.0", "oracle"]


def test_an_older_flink_has_a_folder_and_a_program_of_its_own(
    machine: WorldSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    older = FLINKS["1.20"]
    monkeypatch.setattr(program, "run_to_end", pip_that_brings(f"flink-dist-{older}.jar"))
    with pytest.raises(WorldError, match=f"no Flink {older}") as lacking:
        find_oracle(machine, version=older)

    with provisioning(machine, rebuild=False, say=lambda sentence: None) as task:
        said = [step.thing for step in provide_oracle(task, version=older)]

    assert lacking.value.fix == "floodmark setup --oracle --flink 1.20"
    assert said == [f"Flink {older}", "oracle"]
    assert f"flink-dist-{older}.jar" in " ".join(find_oracle(machine, version=older))
    assert program_jar(machine, version=older) != program_jar(machine)
    with pytest.raises(WorldError, match=r"no Flink 2\.3\.0"):
        find_oracle(machine)
