"""What `floodmark setup --oracle` does: get Flink's jar, compile our program against it, let it rehearse.

Invariant: a step that finds its thing in place does nothing and says so; none needs root.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator

from harness.clock import monotonic_us
from harness.errors import WorldError
from harness.oracle.flink_jar import FLINK_VERSION, flink_jar, install_flink
from harness.oracle.program import archive_of, compile_program, find_java, program_jar, rehearse
from harness.world.provision import Provision, Step, timed_step

__all__ = ["provide_oracle"]


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
