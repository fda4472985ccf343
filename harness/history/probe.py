"""The history of a database's probe: appends to one list and readings of it, by a client of the harness's own (V22).

Answers to Elle's list-append workload, with one list and one client. Invariant: an operation is told with its begin
and its end, and its outcome is what the client got: `unknown` where it got no answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import msgspec


class ProbeOperation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One operation; times in microseconds of the machine's monotonic clock."""

    began: int
    ended: int
    do: Literal["append", "read"]
    outcome: Literal["ok", "fail", "unknown"]
    value: int = 0
    """What was appended."""
    seen: list[int] = []
    """The whole list, as a reading saw it."""
    server: int = 0
    """The id of the server that answered; 0: none did."""
    isolation: str = ""
    """The isolation level of a reading's session."""


def write_probe(path: Path, operations: Sequence[ProbeOperation]) -> None:
    """A file of JSON lines."""
    encode = msgspec.json.Encoder().encode
    path.write_bytes(b"".join(encode(one) + b"\n" for one in operations))
