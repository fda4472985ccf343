"""Writes a canary into what records runs: its events through an attempt's journal, its rows into tables.

Invariant: what a journal can write it writes; only fields that it makes itself (a nonce, a thread) or does not know go
to its log directly.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, get_args

import msgspec

from harness.history.event import Event, Kill, OfAttempt
from harness.history.journal import EventLog, Journal
from harness.judge.canaries.canary import Canary
from harness.system.process_identity import ProcessIdentity


class CanaryPlace(Protocol):
    """Where a level's runs leave their events and rows."""

    def go_on(self, t_us: int) -> None:
        """Sets the clock; it never goes back."""

    def log(self, subtask: int, attempt: int) -> EventLog:
        """The log of a new attempt."""

    def note(self, event: Event) -> None:
        """An event that no attempt writes: of the harness, the coordinator, a fault, or a commit; its `n` is open."""

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
        elif kind not in _KINDS:
            if kind != "read":
                place.note(msgspec.convert({**line, "n": 0}, Event))
        else:
            attempt = fields["s"], fields["a"]
            if attempt not in logs:
                log = place.log(*attempt)
                logs[attempt] = log, Journal(log, subtask=attempt[0], attempt=attempt[1])
            _write(kind, fields, *logs[attempt])


def _write(kind: str, fields: dict[str, Any], log: EventLog, journal: Journal) -> None:
    named = {_NAMES[kind][name]: value for name, value in fields.items()}
    if not _MADE_BY_THE_JOURNAL.isdisjoint(fields):
        log.event(_KINDS[kind], **named)
    elif kind in _JOURNALED:
        _JOURNALED[kind](journal, fields)
    else:
        del named["s"], named["a"]
        journal.event(_KINDS[kind], **named)


_ROWS: Final = frozenset({"row", "effect"})
_MADE_BY_THE_JOURNAL: Final = frozenset({"nonce", "thread", "ver"})
_KINDS: Final[Mapping[str, type[OfAttempt]]] = {
    str(kind.__struct_config__.tag): kind for kind in get_args(OfAttempt) if kind is not Kill
}
_NAMES: Final = {
    tag: {field.encode_name: field.name for field in msgspec.structs.fields(kind)}
    for tag, kind in _KINDS.items()
}
_NO_PROCESS: Final = ProcessIdentity(pid=0, started=0)


_JOURNALED: Final[Mapping[str, Callable[[Journal, dict[str, Any]], None]]] = {
    "start": lambda journal, line: journal.started(
        checkpoint=line["from"], position=line["pos"], process=_NO_PROCESS
    ),
    "call": lambda journal, line: journal.called(id=line["id"], attempt=line["try"]),
    "res": lambda journal, line: journal.settled(
        id=line["id"],
        attempt=line["try"],
        ending=line["r"],
        final=line["final"],
        values=line.get("v"),
        error=line.get("error"),
    ),
    "failed": lambda journal, line: journal.failed(line["error"], id=line.get("id")),
    "close": lambda journal, _: journal.closed(),
}
