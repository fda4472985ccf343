"""Small histories of jobs for tests of one rule: one event a line, `kind name=value ...`; the rest is filled in.

`insert`, `update` and `delete` are rows of the newest start, each a transaction of its own unless it has `last=false`.
`whole reading=1` stands for every `read` of that reading. `at=` is the time in milliseconds. Positions, starts and
transactions are counted where they are not given.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from harness.history.outside import OutsideEvent, OutsideHeader
from harness.history.read import outside_of

Json = dict[str, Any]
HEADER: Json = {
    "history": 1,
    "view": "outside",
    "claims": {"delivery": "exactly-once"},
    "sink": {"write": "append", "id": ["id"], "values": ["v"]},
    "expect_from": "given",
}


def job_history(events: str, **header: Any) -> tuple[OutsideHeader, list[OutsideEvent]]:
    """Of an append to one id column and one column of values, exactly once."""
    full = {**HEADER, **header}
    return outside_of(full, job_lines(events, full))


def job_lines(text: str, header: Mapping[str, Any] = HEADER) -> Iterator[Json]:
    """The events as JSON."""
    counts: Counter[Any] = Counter()
    is_open = False
    parts = ["table", *(["log"] if header["sink"].get("changes", True) else [])]
    parts += ["dead"] if header.get("dead_letters") is not None else []
    n = at_ms = 0
    for line in text.strip().splitlines():
        kind, *words = line.split()
        fields = {name: json.loads(value) for name, _, value in (word.partition("=") for word in words)}
        at_ms = fields.pop("at", at_ms)
        told = [fields]
        if kind == "whole":
            reading = fields["reading"]
            rows = {"log": counts["row"], **{part: counts[part, reading] for part in ("table", "dead")}}
            kind, told = "read", [{"reading": reading, "of": part, "rows": rows[part]} for part in parts]
        elif kind == "offer":
            counts["pos"] = fields.setdefault("pos", counts["pos"] + 1)
            fields.setdefault("part", 0)
        elif kind == "start":
            counts["start"] = fields.setdefault("start", counts["start"] + 1)
        elif kind in {"table", "dead", "read"}:
            counts[kind, fields.setdefault("reading", 1)] += 1
        elif kind in {"insert", "update", "delete"}:
            counts["row"] += 1
            counts["tx"] = fields.setdefault("tx", counts["tx"] + (not is_open))
            is_open = not fields.setdefault("last", True)
            kind, told = "row", [{"op": kind, "start": counts["start"] or None, **fields}]
        for event in told:
            n += 1
            yield {"n": n, "t": at_ms * 1000 + n, "k": kind, **event}
