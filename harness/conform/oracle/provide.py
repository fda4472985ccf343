"""Finds and sets up the oracle: `find_oracle` returns the command that starts it, `provide_oracle` prepares it.

A returned command can be run; if something is missing, the error names the command to type. A setup step that finds
its result in place changes nothing and says so; no step needs root.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator

from harness.conform.oracle.program import (
    FLINK_VERSION,
    MAIN,
    archive_of,
    command_line,
    compile_program,
    find_java,
    flink_jar,
    install_flink,
    program_jar,
    rehearse,
)
from harness.system.clock import monotonic_us
from harness.system.errors import WorldError
from harness.world.settings import WorldSettings
from harness.world.setup.provision import Provision, ProvisionStep, timed_step

SETUP = "floodmark setup --oracle"


def find_oracle(settings: WorldSettings, *, main: str = MAIN, version: str = FLINK_VERSION) -> list[str]:
    """The command line of one of the oracle's main classes. Raises WorldError that says what to set up."""
    find_java(settings)
    fix = SETUP if version == FLINK_VERSION else f"{SETUP} --flink {version.rpartition('.')[0]}"
    if not flink_jar(settings.places, version=version).exists():
        raise WorldError(f"there is no Flink {version} in {settings.places.root}", fix=fix)
    program = program_jar(settings, version=version)
    if not program.exists():
        raise WorldError("the oracle's Java program is not compiled, or its sources have changed", fix=fix)
    return command_line(settings, program, main=main, version=version)


def provide_oracle(task: Provision, *, version: str = FLINK_VERSION) -> Iterator[ProvisionStep]:
    """Install Flink and compile our program around its operator, for `floodmark sut serve flink`."""
    find_java(task.settings)  # checked before anything large is downloaded
    begun_us = monotonic_us()
    yield timed_step(f"Flink {version}", _flink(task, version), begun_us)
    begun_us = monotonic_us()
    yield timed_step("oracle", _program(task, version), begun_us)


def _flink(task: Provision, version: str) -> str:
    jar = flink_jar(task.settings.places, version=version)
    if task.rebuild:
        shutil.rmtree(jar.parents[2], ignore_errors=True)
    if jar.exists():
        return f"{jar}, already there"
    scratch = task.ledger.folder
    return f"installed {install_flink(task.settings.places, scratch=scratch, say=task.say, version=version)}"


def _program(task: Provision, version: str) -> str:
    program = program_jar(task.settings, version=version)
    if task.rebuild:
        shutil.rmtree(program.parent, ignore_errors=True)
    if archive_of(program).exists():
        return f"{program}, already there"
    if not program.exists():
        compile_program(task.settings, scratch=task.ledger.folder, say=task.say, version=version)
    try:
        rehearse(task.settings, program, scratch=task.ledger.folder, say=task.say, version=version)
    except WorldError:
        shutil.rmtree(program.parent)  # else the next setup would take it for complete
        raise
    return f"compiled {program}"
