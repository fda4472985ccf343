"""Writes a canary into what records runs: its events through an attempt's journal, its rows into tables.

Invariant: what a journal can write it writes; only fields that it makes itself (a nonce, a thread) or does not know go
to its log directly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, get_args

import msgspec

from harness.history.event import OfAttempt
from harness.history.journal import EventLog, Journal
from harness.history.values import END_OF_TIME
from harness.judge.canaries.canary import Canary
from harness.system.process_identity import ProcessIdentity


class CanaryPlace(Protocol):
    """Where a level's runs leave their events and rows."""

    def go_on(self, t_us: int) -> None:
        """Sets the clock; it never goes back."""

    def log(self, subtask: int, attempt: int) -> EventLog:
        """The log of a new attempt."""

    def note(self, kind: str, fields: Mapping[str, object]) -> None:
        """An event that no attempt writes: of the harness, the coordinator, a fault, or a commit."""

    def store(self, table: str, row: Mapping[str, object]) -> None:
        """A row of a table, with the fields of its event."""


def write_canary(canary: Canary, place: CanaryPlace) -> None:
    """Writes every event and row of `canary`, in order."""
    logs: dict[tuple[int, int], tuple[EventLog, Journal]] = {}
    for line in canary.events:
        kind, t_us = line["k"], line["t"]
        fields = {name: value for name, value in line.items() if name not in {"n", "t", "k"}}
        place.go_on(t_us)
        if kind in _ROWS:
            place.store(fields.pop("table", "audit"), fields)
        elif kind not in _JOURNALED:
            if kind != "read":
                place.note(kind, fields)
        else:
            attempt = fields["s"], fields["a"]
            if attempt not in logs:
                log = place.log(*attempt)
                logs[attempt] = log, Journal(log, subtask=attempt[0], attempt=attempt[1])
            _write(kind, fields, *logs[attempt])


def _write(kind: str, fields: dict[str, Any], log: EventLog, journal: Journal) -> None:
    if _MADE_BY_THE_JOURNAL.isdisjoint(fields):
        _JOURNALED[kind](journal, fields)
    else:
        log.event(_KINDS[kind], **{_NAMES[kind][name]: value for name, value in fields.items()})


_ROWS: Final = frozenset({"row", "effect"})
_MADE_BY_THE_JOURNAL: Final = frozenset({"nonce", "thread", "ver"})
_KINDS: Final[Mapping[str, type[OfAttempt]]] = {
    str(kind.__struct_config__.tag): kind for kind in get_args(OfAttempt)
}
_NAMES: Final = {
    tag: {field.encode_name: field.name for field in msgspec.structs.fields(kind)}
    for tag, kind in _KINDS.items()
}
_NO_PROCESS: Final = ProcessIdentity(pid=0, started=0)


def _timestamp(watermark: int | str) -> int:
    return END_OF_TIME if watermark == "end" else int(watermark)


_JOURNALED: Final[Mapping[str, Callable[[Journal, dict[str, Any]], None]]] = {
    "start": lambda journal, line: journal.started(
        checkpoint=line["from"], position=line["pos"], process=_NO_PROCESS
    ),
    "restore": lambda journal, line: journal.restored(checkpoint=line["c"], elements=line["elements"]),
    "in": lambda journal, line: journal.took_record(
        position=line["pos"],
        id=line["id"],
        key=line.get("key"),
        ts=line.get("ts"),
        expect=line.get("expect"),
        part=line.get("part"),
        at=line.get("at"),
    ),
    "wm": lambda journal, line: journal.took_watermark(position=line["pos"], timestamp=_timestamp(line["w"])),
    "call": lambda journal, line: journal.called(id=line["id"], attempt=line["try"]),
    "res": lambda journal, line: journal.settled(
        id=line["id"],
        attempt=line["try"],
        ending=line["r"],
        final=line["final"],
        values=line.get("v"),
        error=line.get("error"),
    ),
    "out": lambda journal, line: journal.emits(id=line["id"], j=line["j"], value=line["v"], ts=None),
    "owm": lambda journal, line: journal.emits_watermark(_timestamp(line["w"])),
    "snap": lambda journal, line: journal.snapped(
        checkpoint=line["c"], position=line["pos"], elements=line["elements"]
    ),
    "dead": lambda journal, line: journal.dead(id=line["id"]),
    "failed": lambda journal, line: journal.failed(line["error"], id=line.get("id")),
    "end": lambda journal, _: journal.source_exhausted(),
    "ended": lambda journal, _: journal.drained(),
    "close": lambda journal, _: journal.closed(),
}
