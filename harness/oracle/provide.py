"""The oracle for its users: `find_oracle` gives the command that starts it, `provide_oracle` sets it up.

A command that is returned can be run; what is missing is an error that names the command to type. A setup
step that finds its result in place does nothing and says so; none needs root.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator

from harness.clock import monotonic_us
from harness.errors import WorldError
from harness.oracle.program import (
    FLINK_VERSION,
    archive_of,
    command_line,
    compile_program,
    find_java,
    flink_jar,
    install_flink,
    program_jar,
    rehearse,
)
from harness.world.settings import WorldSettings
from harness.world.setup.provision import Provision, Step, timed_step

__all__ = ["SETUP", "find_oracle", "provide_oracle"]

SETUP = "floodmark setup --oracle"


def find_oracle(settings: WorldSettings) -> list[str]:
    """The command to run, its program first; or an error that says what to set up."""
    find_java(settings)
    if not flink_jar(settings.places).exists():
        raise WorldError(f"there is no Flink {FLINK_VERSION} in {settings.places.root}", fix=SETUP)
    program = program_jar(settings)
    if not program.exists():
        raise WorldError("the oracle's Java program is not compiled, or its sources have changed", fix=SETUP)
    return command_line(settings, program)


def provide_oracle(task: Provision) -> Iterator[Step]:
    """Flink and our program around its operator, ready for `floodmark sut serve flink`."""
    find_java(task.settings)  # before anything large is fetched in vain
    begun_us = monotonic_us()
    yield timed_step(f"Flink {FLINK_VERSION}", _flink(task), begun_us)
    begun_us = monotonic_us()
    yield timed_step("oracle", _program(task), begun_us)


def _flink(task: Provision) -> str:
    jar = flink_jar(task.settings.places)
    if task.rebuild:
        shutil.rmtree(jar.parents[2], ignore_errors=True)
    if jar.exists():
        return f"{jar}, already there"
    return f"installed {install_flink(task.settings.places, scratch=task.ledger.folder, say=task.say)}"


def _program(task: Provision) -> str:
    program = program_jar(task.settings)
    if task.rebuild:
        shutil.rmtree(program.parent, ignore_errors=True)
    if archive_of(program).exists():
        return f"{program}, already there"
    if not program.exists():
        compile_program(task.settings, scratch=task.ledger.folder, say=task.say)
    try:
        rehearse(task.settings, program, scratch=task.ledger.folder, say=task.say)
    except WorldError:
        shutil.rmtree(program.parent)  # or it would be found, and started
        raise
    return f"compiled {program}"
