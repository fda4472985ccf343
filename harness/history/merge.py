"""Merges the files that the attempts and the harness wrote into one history of `docs/reference/history.md`.

Invariant: no event is invented. An event is in the history only if a file holds it, with three exceptions that
the database proves: the `commit` of an epoch whose attempt died before it could record it, the `done` of a
checkpoint whose decision was announced and stored but not recorded, and what was read after the run (`effect`, `row`,
`read`). A torn last line is dropped, a missing one is reported, a `kill` that was noticed late is moved (decision 73).
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path

import msgspec

from harness.history.event import AttemptEvent, Commit, Done, Event, FaultEvent, Kill, Start
from harness.history.notes import AttemptNote, CommitBegun, Deciding, Dies, Line, Made, Note
from harness.history.recorder import decode_lines


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
    lines = tuple(heapq.merge(*files, key=_time))
    missing = sum(file[-1].n + 1 - len(file) for file in files if file)
    if untold := sum(map(_untold, files)):
        warnings.append(f"{untold} events were made that no file holds, by the journals' own counts")
        missing += untold
    return Leftovers(lines=lines, warnings=tuple(warnings), missing=missing)


_time = attrgetter("t")


def _place(event: Event) -> tuple[int, bool]:
    """A fault begins before what has the same time: a kill that the harness noticed late has that of its fault."""
    return event.t, not (isinstance(event, FaultEvent) and event.phase == "begin")


def _read_file(path: Path, warnings: list[str]) -> list[Line]:
    data = path.read_bytes()
    if data and not data.endswith(b"\n"):
        warnings.append(f"{path.name}: the last line was cut off by a crash and is dropped")
    lines = decode_lines(data)
    expected = 0
    for line in lines:
        if line.n != expected:
            warnings.append(f"{path.name}: {line.n - expected} events are missing before line {line.n}")
        expected = line.n + 1
    return lines


def _untold(lines: Sequence[Line]) -> int:
    """How many events, by the journal's own count, are not in its file although no line number is missing.

    A journal writes a `commit` without counting it, for a simulated database records commits itself.
    """
    told = untold = 0
    for place, line in enumerate(lines):
        if isinstance(line, Made):
            untold = max(untold, abs(line.events - told) if line.n == place else 0)
        told += not isinstance(line, Commit | Note)
    return untold


def merge(
    leftovers: Leftovers,
    *,
    faults: Sequence[Event],
    committed: Mapping[tuple[int, int], int],
    effects: Sequence[Event],
    completed: Collection[int] = (),
) -> list[Event]:
    """The events of the history, numbered from 1, with times from the start of the run.

    `faults` are the faults' events, in time order. `committed` maps (subtask, epoch) to the attempt that wrote it
    and `completed` holds the completed checkpoints, both as the database has them. `effects` are its audit rows,
    and the `row`s and `read`s of its tables, in the order in which they were read; they have no `n` and `t` yet.
    """
    recorded = {(line.s, line.c) for line in leftovers.lines if isinstance(line, Commit)}
    origin = leftovers.lines[0].t if leftovers.lines else 0
    settled = _settled(leftovers.lines, committed, recorded, completed)
    events = list(heapq.merge(settled, faults, key=_place))
    last = events[-1].t if events else origin
    times = [*(event.t - origin for event in events), *[last - origin] * len(effects)]
    return [
        msgspec.structs.replace(event, n=number, t=t)
        for number, (event, t) in enumerate(zip([*events, *effects], times, strict=True), start=1)
    ]


def _settled(
    lines: Sequence[Line],
    committed: Mapping[tuple[int, int], int],
    recorded: set[tuple[int, int]],
    completed: Collection[int],
) -> Iterator[Event]:
    """The events, including those that the database proves; each takes the place of the last note about it.

    So does the `kill` of an attempt that ended itself: on a busy machine its successor may begin before the harness
    looks, although the attempt had ended by then.
    """
    proven: dict[tuple[int, ...], tuple[Line, Event]] = {}
    for line in lines:
        match line:
            case CommitBegun(t=t, s=s, c=c, a=a):
                if (s, c) not in recorded and committed.get((s, c)) == a:
                    proven[s, c] = line, Commit(n=0, t=t, s=s, c=c, a=a)
            case Deciding(t=t, c=c) if c in completed:
                proven[c,] = line, Done(n=0, t=t, c=c)
    made = {id(line): event for line, event in proven.values()}
    late = {id(kill): (dies, kill) for dies, kill in _late_kills(lines)}
    made |= {id(dies): msgspec.structs.replace(kill, t=dies.t) for dies, kill in late.values()}
    for line in lines:
        if not isinstance(line, Note):
            if id(line) not in late:
                yield line
        elif (event := made.get(id(line))) is not None:
            yield event


def _late_kills(lines: Sequence[Line]) -> Iterator[tuple[Dies, Kill]]:
    """Each kill that follows the start of the attempt's successor, with the note that ends the attempt's own file."""
    dying: dict[tuple[int, int], Dies] = {}
    newest: dict[int, int] = {}
    for line in lines:
        match line:
            case Start(s=s, a=a):
                newest[s] = max(a, newest.get(s, 0))
            case Dies(s=s, a=a):
                dying[s, a] = line
            case Kill(s=s, a=a) if newest.get(s, a) > a and (s, a) in dying:
                yield dying[s, a], line
            case AttemptEvent(s=s, a=a) | AttemptNote(s=s, a=a):
                dying.pop((s, a), None)  # it went on


def history_text(header: Mapping[str, object], events: Sequence[Event]) -> bytes:
    """The text form, as `read.open_text` reads it."""
    return msgspec.json.Encoder().encode_lines([header, *events])
