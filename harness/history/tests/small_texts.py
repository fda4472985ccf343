"""Smallest histories as text, and what the exact reader says of them, for the tests of the format."""

from __future__ import annotations

import json
from typing import Any

from harness.history.read import HistoryReader, open_text

HEADER: dict[str, Any] = {"history": 1, "operator": {"mode": "ordered", "capacity": 2, "timeout_ms": 0}}
OF = {"s": 0, "a": 1}
START = {"k": "start", **OF, "from": None, "pos": 0}
IN = {"k": "in", **OF, "pos": 0, "id": 1}


def text(*events: dict[str, Any] | str, header: dict[str, Any] | str = HEADER) -> bytes:
    """A file; events get `n` and `t` unless they have their own, strings stand as they are."""
    lines = [header if isinstance(header, str) else json.dumps(header)]
    for n, event in enumerate(events, start=1):
        lines.append(event if isinstance(event, str) else json.dumps({"n": n, "t": n, **event}))
    return "".join(line + "\n" for line in lines).encode()


def read(data: bytes) -> HistoryReader:
    reader = open_text(data)
    list(reader.events())
    return reader


def lines(data: bytes) -> list[int]:
    return [breach.line for breach in read(data).breaches]
