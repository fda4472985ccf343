"""A canary of the view from outside: a small history of a job, one event a line, and what must be said of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from harness.history.outside import OutsideEvent, OutsideHeader
from harness.history.read import outside_of
from harness.history.verdict import Judgement, Outcome
from harness.judge.canaries.canary import is_found

__all__ = ["OutsideCanary", "job_lines", "overlooked_outside"]

OutsideJudge = Callable[[OutsideHeader, list[OutsideEvent]], Judgement]

_CHANGES = frozenset({"insert", "update", "delete"})
_READ = frozenset({"table", "dead"})
_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "table": {"reading": 1},
    "dead": {"reading": 1},
    "read": {"reading": 1},
    "offer": {"part": 0},
}


@dataclass(frozen=True, slots=True, kw_only=True)
class OutsideCanary:
    """A small history of a job, in the lines of `job_lines`."""

    invariant: str
    """The invariant that must convict it; empty: the history is honest."""
    kind: str = ""
    about: str = ""
    outcome: Outcome = Outcome.FAIL
    events: str
    claims: Mapping[str, Any] = field(default_factory=dict)
    """What is claimed besides the delivery `exactly-once`."""
    sink: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the sink besides `append`, one id column and one column of values."""
    header: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of the header."""

    @property
    def name(self) -> str:
        """`V8 duplicate`."""
        return " ".join(word for word in (self.invariant or "honest", self.kind, self.about) if word)

    def lines(self) -> list[dict[str, Any]]:
        """The objects of its lines."""
        header = {
            "history": 1,
            "view": "outside",
            "claims": {"delivery": "exactly-once", **self.claims},
            "sink": {"write": "append", "id": ["id"], "values": ["v"], **self.sink},
            "expect_from": "given",
            **self.header,
        }
        return [header, *job_lines(self.events, header)]

    def history(self) -> tuple[OutsideHeader, list[OutsideEvent]]:
        """Header and events. Raises HistoryError if they break the rules of a history."""
        header, *events = self.lines()
        return outside_of(header, events)


def job_lines(text: str, header: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The events of a text of lines `kind name=value ...`; `at=` is the time in milliseconds.

    `insert`, `update` and `delete` are rows of the newest start, each a transaction of its own unless it has
    `last=false`. `whole reading=1` stands for every `read` of that reading. Positions, transactions and readings are
    counted if they are not given.
    """
    told = _Telling(header)
    for line in text.strip().splitlines():
        yield from told.events(line)


class _Telling:
    """Turns lines into events. Mutable: counts."""

    def __init__(self, header: Mapping[str, Any]) -> None:
        self._header = header
        self._n = self._at_ms = self._pos = self._tx = self._rows = self._start = 0
        self._is_open = False
        self._read: dict[tuple[str, int], int] = {}

    def events(self, line: str) -> Iterator[dict[str, Any]]:
        kind, *words = line.split()
        pairs = (word.partition("=") for word in words)
        fields = {name: msgspec.json.decode(value) for name, _, value in pairs}
        self._at_ms = fields.pop("at", self._at_ms)
        if kind == "whole":
            for of in self._parts():
                reading = fields["reading"]
                rows = self._rows if of == "log" else self._read.get((of, reading), 0)
                yield self._event("read", {"reading": reading, "of": of, "rows": rows})
            return
        yield self._event("row" if kind in _CHANGES else kind, self._filled(kind, fields))

    def _parts(self) -> Iterator[str]:
        yield "table"
        if self._header["sink"].get("changes", True):
            yield "log"
        if self._header.get("dead_letters") is not None:
            yield "dead"

    def _filled(self, kind: str, fields: dict[str, Any]) -> dict[str, Any]:
        fields = {**_DEFAULTS.get(kind, {}), **fields}
        if kind == "offer":
            self._pos = fields.setdefault("pos", self._pos + 1)
        elif kind == "start":
            self._start = fields.setdefault("start", self._start + 1)
        elif kind in _READ:
            key = kind, fields["reading"]
            self._read[key] = self._read.get(key, 0) + 1
        elif kind in _CHANGES:
            self._rows += 1
            self._tx = fields.setdefault("tx", self._tx + (not self._is_open))
            self._is_open = not fields.setdefault("last", True)
            return {"op": kind, "start": self._start or None, **fields}
        return fields

    def _event(self, kind: str, fields: Mapping[str, Any]) -> dict[str, Any]:
        self._n += 1
        return {"n": self._n, "t": self._at_ms * 1000 + self._n, "k": kind, **fields}


def overlooked_outside(judge: OutsideJudge, canaries: Iterable[OutsideCanary]) -> tuple[str, ...]:
    """The names of the canaries that the judge does not convict, and of the honest ones that it does not acquit."""
    return tuple(canary.name for canary in canaries if not is_found(canary, judge(*canary.history())))
