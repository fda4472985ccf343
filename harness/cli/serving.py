"""How `floodmark sut serve` finds what it serves, and ties it to standard input and output.

Invariant: standard output carries the protocol and nothing else; a reader that goes away ends the program quietly.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from harness.errors import Exit, UsageError

__all__ = ["serve"]

_FLINK = "flink"


def serve(name: str) -> int:
    """Serve the system of that name until the input ends; the exit code."""
    from harness.sut.serve import SYSTEMS

    if name == _FLINK:
        return _become(_flink_command())
    if name not in SYSTEMS:
        raise UsageError(f"no system {name!r} to serve; there are {', '.join([*SYSTEMS, _FLINK])}")
    _serve_here(name)
    return Exit.HOLD


def _serve_here(name: str) -> None:
    from harness.sut.serve import SYSTEMS, converse
    from harness.sut.serve.line import Lines

    out = sys.stdout.buffer

    def write(line: bytes) -> None:
        out.write(line)

    lines = Lines(sys.stdin.fileno(), before_wait=out.flush)
    try:
        converse(SYSTEMS[name], read=lines.read, write=write)
        out.flush()
    except BrokenPipeError:
        # Nobody reads any more. Python would say so again when it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _flink_command() -> Sequence[str]:
    from harness.oracle.provide import find_oracle
    from harness.world.settings import WorldSettings

    return find_oracle(WorldSettings.from_environment())


def _become(command: Sequence[str]) -> int:
    """The real Flink takes this process's place: its input, its output and its end are our caller's."""
    os.execv(command[0], list(command))  # noqa: S606 - the very point: no process in between
