"""Connects a system under test to standard input and output, for `floodmark sut serve`.

Invariant: standard output carries only the protocol; if its reader closes it, the program ends without an error.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from harness.system.errors import Exit, UsageError

_FLINK = "flink"
_OF_LINE = "flink-"
"""`flink-1.20`: the release of that line."""


def serve(name: str) -> int:
    """Serves the named system until the input ends; returns the exit code."""
    from harness.sut.serve import SYSTEMS, converse
    from harness.sut.serve.line import Lines

    if name == _FLINK or name.startswith(_OF_LINE):
        command = flink_command(name)
        os.execv(command[0], list(command))  # noqa: S606 - there must be no process between it and the caller
    if name not in SYSTEMS:
        raise UsageError(f"no system {name!r} to serve; there are {', '.join([*SYSTEMS, _FLINK])}")
    out = sys.stdout.buffer

    def write(line: bytes) -> None:
        out.write(line)

    lines = Lines(sys.stdin.fileno(), before_wait=out.flush)
    try:
        converse(SYSTEMS[name], read=lines.read, write=write)
        out.flush()
    except BrokenPipeError:
        # The reader is gone; Python would raise again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return Exit.HOLD


def flink_command(name: str = _FLINK) -> Sequence[str]:
    """The command line of the real Flink, `flink` or `flink-2.0`. Raises WorldError if it is not set up."""
    from harness.conform.oracle.program import FLINK_VERSION, FLINKS, find_oracle
    from harness.world.settings import WorldSettings

    version = FLINK_VERSION if name == _FLINK else FLINKS.get(name.removeprefix(_OF_LINE))
    if version is None:
        known = ", ".join(f"{_OF_LINE}{line}" for line in FLINKS)
        raise UsageError(f"no system {name!r} to serve; of Flink there are {known}", fix="name one of them")
    return find_oracle(WorldSettings.from_environment(), version=version)
