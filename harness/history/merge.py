"""The merge: the files that attempts and the harness left become one history of `docs/reference/history.md`.

Invariant: nothing is invented. An event is in the history if a file holds it, with three exceptions that rest
on the database: `commit` of an epoch whose attempt died before it could write that down, `done` of a checkpoint
that the coordinator was about to decide, and `effect`, the rows of the database's audit log. A torn last line
is dropped, a missing line is reported.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

__all__ = ["Leftovers", "Line", "history_text", "merge", "read_leftovers"]

Line = dict[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftovers:
    """What a run's folder holds: events and notes in the order of the clock, and what is wrong with it."""

    lines: tuple[Line, ...]
    warnings: tuple[str, ...]
    missing: int
    """Lines that were written, by the numbers of their neighbours, and are not there."""


def read_leftovers(folder: Path) -> Leftovers:
    """Read every file of `folder`; each is in order by itself, and the clock is one for all."""
    warnings: list[str] = []
    files = [_read_file(path, warnings) for path in sorted(folder.glob("*.jsonl"))]
    lines = tuple(heapq.merge(*files, key=lambda line: line["t"]))
    missing = sum(file[-1]["i"] + 1 - len(file) for file in files if file)
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


def merge(
    leftovers: Leftovers,
    *,
    faults: Sequence[Line],
    committed: Mapping[tuple[int, int], int],
    effects: Sequence[Line],
    completed: Collection[int] = (),
) -> list[Line]:
    """The events of the history, numbered, on a clock that starts with the run.

    `faults` are the faults' events, in time order. `committed` is what the database says: (subtask, epoch)
    -> the attempt that wrote it; `completed` are the checkpoints that it knows as complete. `effects` are its
    audit rows as events without `n` and `t`.
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
    """The events; a note becomes one where the database says so: of several tries the last, which took effect."""
    tries: dict[tuple[Any, ...], Line] = {}
    for line in lines:
        if line["k"] == "~committing" and _is_lost_commit(line, committed, recorded):
            tries["commit", line["s"], line["c"]] = line
        elif line["k"] == "~deciding" and line["c"] in completed:
            tries["done", line["c"]] = line
    made = {id(line): _commit(line) if key[0] == "commit" else _done(line) for key, line in tries.items()}
    for line in lines:
        if not line["k"].startswith("~"):
            yield line
        elif (event := made.get(id(line))) is not None:
            yield event


def _commit(line: Line) -> Line:
    return {"t": line["t"], "k": "commit", "s": line["s"], "c": line["c"], "a": line["a"]}


def _done(line: Line) -> Line:
    return {"t": line["t"], "k": "done", "c": line["c"]}


def _is_lost_commit(
    line: Line, committed: Mapping[tuple[int, int], int], recorded: set[tuple[int, int]]
) -> bool:
    """Whether the database has the epoch that this attempt was committing when it died."""
    epoch = (line["s"], line["c"])
    return epoch not in recorded and committed.get(epoch) == line["a"]


def history_text(header: Mapping[str, Any], events: Sequence[Line]) -> bytes:
    """The text form, as `read.open_text` takes it."""
    encode = msgspec.json.Encoder().encode
    lines = [header, *({"n": event["n"], "t": event["t"], "k": event["k"], **event} for event in events)]
    return b"".join(encode(line) + b"\n" for line in lines)
