"""Merges the files that the attempts and the harness wrote into one history of `docs/reference/history.md`.

Invariant: no event is invented. An event is in the history only if a file holds it, with three exceptions that
the database proves: the `commit` of an epoch whose attempt died before it could record it, the `done` of a
checkpoint whose decision was announced and stored but not recorded, and what was read after the run (`effect`, `row`,
`read`). A torn last line is dropped, a missing line is reported.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

Line = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftovers:
    """The lines of a run's folder (events and notes) in time order, with warnings about damage."""

    lines: tuple[Line, ...]
    warnings: tuple[str, ...]
    missing: int
    """The number of lines that are missing: gaps in the line numbers, and events that only a journal's count tells."""


def read_leftovers(folder: Path) -> Leftovers:
    """Read every file of `folder`, merged by time; all files use the same clock."""
    warnings: list[str] = []
    files = [_read_file(path, warnings) for path in sorted(folder.glob("*.jsonl"))]
    lines = tuple(heapq.merge(*files, key=lambda line: line["t"]))
    missing = sum(file[-1]["i"] + 1 - len(file) for file in files if file)
    if untold := sum(map(_untold, files)):
        warnings.append(f"{untold} events were made that no file holds, by the journals' own counts")
        missing += untold
    return Leftovers(lines=lines, warnings=tuple(warnings), missing=missing)


def _read_file(path: Path, warnings: list[str]) -> list[Line]:
    decode = msgspec.json.Decoder().decode
    whole, _, torn = path.read_bytes().rpartition(b"\n")
    if torn:
        warnings.append(f"{path.name}: the last line was cut off by a crash and is dropped")
    lines = [decode(line) for line in whole.split(b"\n")] if whole else []
    expected = 0
    for line in lines:
        if line["i"] != expected:
            warnings.append(f"{path.name}: {line['i'] - expected} events are missing before line {line['i']}")
        expected = line["i"] + 1
    return lines


def _untold(lines: Sequence[Line]) -> int:
    """How many events, by the journal's own count, are not in its file although no line number is missing."""
    told = untold = 0
    for place, line in enumerate(lines):
        if line["k"] == "~made":
            untold = max(untold, abs(line["events"] - told) if line["i"] == place else 0)
        told += line["k"] not in _NOT_COUNTED and not line["k"].startswith("~")
    return untold


_NOT_COUNTED = frozenset({"commit"})
"""What a journal writes without counting it, for a simulated database records commits itself."""


def merge(
    leftovers: Leftovers,
    *,
    faults: Sequence[Line],
    committed: Mapping[tuple[int, int], int],
    effects: Sequence[Line],
    completed: Collection[int] = (),
) -> list[Line]:
    """The events of the history, numbered from 1, with times from the start of the run.

    `faults` are the faults' events, in time order. `committed` maps (subtask, epoch) to the attempt that wrote it
    and `completed` holds the completed checkpoints, both as the database has them. `effects` are its audit rows,
    and the `row`s and `read`s of its tables, as events without `n` and `t`, in the order in which they were read.
    """
    recorded = {(line["s"], line["c"]) for line in leftovers.lines if line["k"] == "commit"}
    origin = leftovers.lines[0]["t"] if leftovers.lines else 0
    settled = _settled(leftovers.lines, committed, recorded, completed)
    events = [dict(line) for line in heapq.merge(settled, faults, key=lambda line: line["t"])]
    last = events[-1]["t"] if events else origin
    events.extend({**effect, "t": last} for effect in effects)
    for number, event in enumerate(events, start=1):
        event.pop("i", None)
        event["n"] = number
        event["t"] -= origin
    return events


def _settled(
    lines: Sequence[Line],
    committed: Mapping[tuple[int, int], int],
    recorded: set[tuple[int, int]],
    completed: Collection[int],
) -> Iterator[Line]:
    """The events, including those that the database proves; each takes the place of the last note about it."""
    proven: dict[tuple[Any, ...], tuple[Line, Line]] = {}
    for line in lines:
        if line["k"] == "~committing":
            t, s, c, a = line["t"], line["s"], line["c"], line["a"]
            if (s, c) not in recorded and committed.get((s, c)) == a:
                proven["commit", s, c] = line, {"t": t, "k": "commit", "s": s, "c": c, "a": a}
        elif line["k"] == "~deciding" and line["c"] in completed:
            proven["done", line["c"]] = line, {"t": line["t"], "k": "done", "c": line["c"]}
    made = {id(line): event for line, event in proven.values()}
    for line in lines:
        if not line["k"].startswith("~"):
            yield line
        elif (event := made.get(id(line))) is not None:
            yield event


def history_text(header: Mapping[str, object], events: Sequence[Line]) -> bytes:
    """The text form, as `read.open_text` reads it."""
    encode = msgspec.json.Encoder().encode
    lines = [header, *({"n": event["n"], "t": event["t"], "k": event["k"], **event} for event in events)]
    return b"".join(encode(line) + b"\n" for line in lines)
