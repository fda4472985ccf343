"""The command line of the oracle, for whoever starts programs that speak the operator protocol.

Invariant: a command that is returned can be run; what lacks is an error of the machine that names the command to type.
"""

from __future__ import annotations

from harness.errors import WorldError
from harness.oracle.flink_jar import FLINK_VERSION, flink_jar
from harness.oracle.program import command_line, find_java, program_jar
from harness.world.settings import WorldSettings

__all__ = ["SETUP", "find_oracle"]

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
