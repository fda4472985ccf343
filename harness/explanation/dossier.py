"""What the history holds about the anomalies that are told in full, gathered by reading it twice more at most.

Answers to Elle's recovery of the operations behind a cycle. Invariant: it holds events of the history only,
and so many of each record at most; memory grows with what is told, and with the skeleton.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass, field
from typing import Any

from harness.explanation.event_lines import EventLines, Glimpse, Json, glimpse_of, whole
from harness.explanation.skeleton import Skeleton
from harness.explanation.time_to_recover import RecoveryFold
from harness.recovery import Recovery
from harness.verdict import Anomaly

__all__ = ["Dossier", "Lineage", "gather", "survey"]

_LINEAGE = 200
"""Events of one record or watermark; what comes after is not looked at."""
_LIVES = 12
"""Attempts of a subtask whose starts and snaps are looked at, the last of them."""

_FAULTS = 100
"""Faults whose evidence is looked at."""

_OF_RECORDS = frozenset({"in", "call", "res", "out", "dead", "failed", "effect"})

Key = tuple[str, Any]
"""`("id", 7)`, `("w", 100)`."""


@dataclass(slots=True, kw_only=True)
class Lineage:
    """The events that name one record or one watermark (mutable: it is filled)."""

    events: list[Json] = field(default_factory=list)
    whole: bool = True
    """Whether these are all of them."""

    def add(self, event: Json) -> None:
        """Take the next one, while there is room."""
        if len(self.events) < _LINEAGE:
            self.events.append(event)
        else:
            self.whole = False


@dataclass(slots=True, kw_only=True)
class Dossier:
    """The events that explanations draw on (mutable while it is gathered)."""

    header: Json
    skeleton: Skeleton = field(default_factory=Skeleton)
    recovery: Recovery = field(default_factory=Recovery)
    complete: bool = True
    """Whether the history could be read to its end."""
    events: dict[int, Json] = field(default_factory=dict)
    """By `n`: witnesses, lives, faults."""
    lineages: dict[Key, Lineage] = field(default_factory=dict)

    def lineage(self, name: str, value: Any) -> Lineage:
        """All that names a record or a watermark; empty if nothing does."""
        return self.lineages.get((name, value)) or Lineage()


def survey(lines: EventLines, cited: Container[int] = ()) -> Dossier:
    """The first reading: the skeleton of the history, the `cited` events, what disturbances cost."""
    dossier = Dossier(header=lines.header())
    recovery = RecoveryFold()
    for line in lines.events():
        event = glimpse_of(line)
        if event is None:
            dossier.complete = False
            break
        dossier.skeleton.step(event)
        recovery.step(event, restored=_records_in(line) if event.k == "restore" else 0)
        if event.n in cited:
            dossier.events[event.n] = whole(line) or {}
    dossier.recovery = recovery.recovery()
    return dossier


def _records_in(line: bytes) -> int:
    return sum("id" in element for element in (whole(line) or {}).get("elements", ()))


def gather(dossier: Dossier, lines: EventLines, anomalies: Iterable[Anomaly]) -> None:
    """The second reading: the lives of the subtasks of `anomalies`, and all that names what they name."""
    told = list(anomalies)
    spans = dossier.skeleton.faults
    wanted = {n for s in dict.fromkeys(anomaly.s for anomaly in told) for n in _lives(dossier.skeleton, s)}
    wanted |= {n for span in spans[:_FAULTS] for n in _numbers(span.begin, span.end)}
    dossier.lineages = {key: Lineage() for anomaly in told for key in _keys(dossier, anomaly)}
    for line in lines.events():
        event = glimpse_of(line)
        if event is None:
            return
        key = _key_of(event)
        lineage = None if key is None else dossier.lineages.get(key)
        if (lineage is not None or event.n in wanted) and (read := whole(line)) is not None:
            if event.n in wanted:
                dossier.events[event.n] = read
            if lineage is not None:
                lineage.add(read)


def _keys(dossier: Dossier, anomaly: Anomaly) -> list[Key]:
    cited = [dossier.events.get(n, {}) for n in anomaly.events]
    named = [_named(event.get("id"), event.get("w")) for event in cited]
    return [*_named(anomaly.id, anomaly.w), *(key for keys in named for key in keys)]


def _lives(skeleton: Skeleton, s: Any) -> list[int]:
    """The starts of a subtask with what they start from, and how its attempts ended."""
    starts = skeleton.starts(s)[-_LIVES:]
    snaps = [snap for start in starts if (snap := skeleton.restored_snap(start)) is not None]
    others = [event for event in skeleton.life.get(s, ()) if event.k != "start"]
    completions = [e for snap in snaps for e in skeleton.checkpoints.get(snap.c, ())]
    numbers = _numbers(*starts, *snaps, *others[-4 * _LIVES :], *completions, *skeleton.finish())
    return numbers if skeleton.last is None else [*numbers, skeleton.last.n]


def _numbers(*events: Glimpse | None) -> list[int]:
    return [event.n for event in events if event is not None]


def _named(record: Any, w: Any) -> list[Key]:
    named = ("id", record), ("w", w)
    return [(name, value) for name, value in named if isinstance(value, int | str)]


def _key_of(event: Glimpse) -> Key | None:
    if event.k in _OF_RECORDS:
        return ("id", event.id) if isinstance(event.id, int | str) else None
    if event.k in {"wm", "owm"}:
        return ("w", event.w) if isinstance(event.w, int | str) else None
    return None
