"""Histories seen from outside: the header and the events of `"view": "outside"`, one struct for each kind.

The contract is `docs/reference/history-outside.md`. A whole job that is not ours was put under fire; the history holds
what was put into its source, what was done to it, and what its table and the database's log of changes show. Invariant:
an event is a frozen value; `n` is the total order, `t` is microseconds. `UNSET` means that the field is absent, which
differs from null. A constructor checks nothing: `outside_fields` and `outside_rules` check input.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

from harness.history.header import (
    ANYTHING,
    FLAG,
    JUDGED,
    NAMES,
    OBJECT,
    THIS_VERSION,
    VERSION,
    HeaderField,
    HeaderParts,
    fields_given,
    header_complaints,
    is_names,
    schema_of_parts,
    unjudged,
    whole_from,
    word_of,
)
from harness.history.values import shown

OUTSIDE = "outside"
"""The header's `view`."""

OutsideId = int | str | list[Any] | None
"""An id: the value of the id column, or the list of those of several. In rows null may stand for a column."""
Delivery = Literal["exactly-once", "at-least-once", "at-most-once"]
Write = Literal["append", "replace", "upsert"]
_UNTOLD = ("run", "bounds", "expects", "claims", "sink")


class _Seen(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    tag_field="k",
    omit_defaults=True,
    gc=False,
):
    n: int
    t: int


class Offer(_Seen, frozen=True, kw_only=True, tag="offer"):
    """The harness has put this record into the source."""

    part: int
    pos: int
    id: OutsideId
    key: Any | UnsetType = UNSET
    expect: list[Any] | UnsetType = UNSET
    """The rows that it must yield, each a list of the values of `sink.values`."""
    fails: bool | UnsetType = UNSET
    """Whether no right job can process it."""


class JobStart(_Seen, frozen=True, kw_only=True, tag="start"):
    """The harness starts the whole job, for the `start`-th time."""

    start: int


class JobExit(_Seen, frozen=True, kw_only=True, tag="exit"):
    """The main process of a start was reaped; at least one of the three is known."""

    start: int
    code: int | UnsetType = UNSET
    signal: int | UnsetType = UNSET
    by: str | UnsetType = UNSET
    """`harness`, `outside`, or the name of a fault."""


class JobFault(_Seen, frozen=True, kw_only=True, tag="fault"):
    """A fault takes hold, or ends with its evidence."""

    f: str
    phase: Literal["begin", "end"]
    stalls: bool | UnsetType = UNSET
    can: list[str] | UnsetType = UNSET
    """On `begin`: the kinds of events (`exit`) that it may cause without being named in their `by`."""
    evidence: dict[str, Any] | UnsetType = UNSET
    error: Any | UnsetType = UNSET
    """On `end`: the fault itself failed."""


class LogRow(_Seen, frozen=True, kw_only=True, tag="row"):
    """One change of one row, in the order of the database's log of changes."""

    op: Literal["insert", "update", "delete"]
    tx: int
    id: OutsideId
    v: list[Any]
    j: int | UnsetType = UNSET
    was: dict[str, Any] | UnsetType = UNSET
    """The row before an `update`: `id`, `v`, and `j` if the header names it."""
    session: int | UnsetType | None = UNSET
    start: int | UnsetType | None = UNSET
    """The start that wrote it; absent or null: not known."""
    last: bool | UnsetType = UNSET
    """Whether it ends its transaction, which only then is visible."""


class AskedLookup(_Seen, frozen=True, kw_only=True, tag="asked"):
    """The database saw a lookup."""

    key: Any
    session: int | UnsetType | None = UNSET


class TableRow(_Seen, frozen=True, kw_only=True, tag="table"):
    """A row of the table, as SQL read it."""

    reading: int
    id: OutsideId
    v: list[Any]
    j: int | UnsetType = UNSET


class DeadLetterRow(_Seen, frozen=True, kw_only=True, tag="dead"):
    """A row of the dead-letter table, as SQL read it."""

    reading: int
    id: OutsideId
    error: Any | UnsetType = UNSET


class PartRead(_Seen, frozen=True, kw_only=True, tag="read"):
    """Part of a reading has been read to its end; the database counts `rows` rows in it."""

    reading: int
    of: Literal["table", "dead", "log"]
    rows: int


class JobFinished(_Seen, frozen=True, kw_only=True, tag="finished"):
    """The harness holds the job to be done."""

    how: Literal["exit", "file", "all-rows", "settled"]


class JobGiveUp(_Seen, frozen=True, kw_only=True, tag="giveup"):
    """The harness stopped waiting, or the job has used up its starts."""

    why: Any


OutsideEvent = (
    Offer
    | JobStart
    | JobExit
    | JobFault
    | LogRow
    | AskedLookup
    | TableRow
    | DeadLetterRow
    | PartRead
    | JobFinished
    | JobGiveUp
)


@dataclass(frozen=True, slots=True, kw_only=True)
class OutsideClaims:
    """What the job claims."""

    delivery: Delivery
    order: Literal["none", "source", "key"] = "none"
    fenced: bool | None = None
    """A start has no effect once a later one has had one. None: as the delivery has it, see `is_fenced`."""
    explained: bool = False
    """The history tells whatever could end a start."""

    @property
    def is_fenced(self) -> bool:
        return self.delivery != "at-least-once" if self.fenced is None else self.fenced


@dataclass(frozen=True, slots=True, kw_only=True)
class OutsideSink:
    """The job's table, and what the job may do to a row that is there."""

    write: Write
    id: tuple[str, ...]
    values: tuple[str, ...]
    j: str | None = None
    """The column that numbers a record's rows from 0; None: they are a multiset."""
    table: str | None = None
    changes: bool = True
    """Whether the database has a log of changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutsideBounds:
    """Time limits in ms."""

    recover: int = 0
    quiet: int | None = None
    """Three times the longest gap of the calm twin; None: nothing is `settled`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutsideExpects:
    """Minimum counts that a run must reach, else V23 is vacuous."""

    records: int | None = None
    starts: int | None = None
    asked: int | None = None
    faults: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OutsideHeader:
    """Line 1 of a history seen from outside."""

    claims: OutsideClaims
    sink: OutsideSink
    expect_from: Literal["given", "calm", "none"]
    history: int = VERSION
    view: Literal["outside"] = "outside"
    partitions: int = 1
    dead_letters: str | None = None
    """The table of the records that failed for good."""
    bounds: OutsideBounds = field(default_factory=OutsideBounds)
    expects: OutsideExpects | None = None
    decisive: tuple[str, ...] | None = None
    run: Any = None


_TEXT = HeaderField(lambda value: isinstance(value, str), "a string", {"type": "string"})
_TEXT_OR_NULL = HeaderField(
    lambda value: value is None or isinstance(value, str), "a string or null", {"type": ["string", "null"]}
)
_COLUMNS = HeaderField(
    lambda value: is_names(value) and bool(value),
    "a list of at least one column",
    {"type": "array", "items": {"type": "string"}, "minItems": 1},
)
_VIEW = HeaderField(lambda value: value == OUTSIDE, f'"{OUTSIDE}"', {"const": OUTSIDE})
_CLAIMS: Mapping[str, HeaderField] = {
    "delivery": word_of("exactly-once", "at-least-once", "at-most-once"),
    "order": word_of("none", "source", "key"),
    "fenced": FLAG,
    "explained": FLAG,
}
_SINK: Mapping[str, HeaderField] = {
    "write": word_of("append", "replace", "upsert"),
    "id": _COLUMNS,
    "values": NAMES,
    "j": _TEXT_OR_NULL,
    "table": _TEXT,
    "changes": FLAG,
}
_BOUNDS: Mapping[str, HeaderField] = {bound.name: whole_from(0) for bound in fields(OutsideBounds)}
_EXPECTS: Mapping[str, HeaderField] = {
    "records": whole_from(0),
    "starts": whole_from(0),
    "asked": whole_from(0),
    "faults": NAMES,
}
_TOP: Mapping[str, HeaderField] = {
    "history": THIS_VERSION,
    "view": _VIEW,
    "claims": OBJECT,
    "sink": OBJECT,
    "expect_from": word_of("given", "calm", "none"),
    "partitions": whole_from(1),
    "dead_letters": _TEXT_OR_NULL,
    "bounds": OBJECT,
    "expects": OBJECT,
    "decisive": JUDGED,
    "run": ANYTHING,
}
_REQUIRED = ("history", "view", "claims", "sink", "expect_from")
_PARTS: HeaderParts = {
    "claims": (_CLAIMS, ("delivery",)),
    "sink": (_SINK, ("write", "id", "values")),
    "bounds": (_BOUNDS, ()),
    "expects": (_EXPECTS, ()),
}


def parse_outside_header(given: Mapping[str, Any]) -> OutsideHeader | list[str]:
    """The header that the object of line 1 describes, or the list of everything wrong with it."""
    if type(version := given.get("history")) is int and version != VERSION:
        # The other fields of another version cannot be judged.
        return [f"the history is of version {shown(version)}; only version {VERSION} can be read"]
    complaints = list(header_complaints(given, _TOP, _REQUIRED, _PARTS))
    if is_names(decisive := given.get("decisive")):
        complaints += unjudged(list(decisive or ()))
    if complaints:
        return complaints
    values = dict(given)
    values["claims"] = OutsideClaims(**given["claims"])
    values["sink"] = OutsideSink(**_tuples(given["sink"], "id", "values"))
    if "bounds" in given:
        values["bounds"] = OutsideBounds(**given["bounds"])
    if "expects" in given:
        values["expects"] = OutsideExpects(**_tuples(given["expects"], "faults"))
    return OutsideHeader(**_tuples(values, "decisive"))


def _tuples(given: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: tuple(value) if name in names else value for name, value in given.items()}


def outside_header_schema() -> dict[str, Any]:
    """The JSON Schema of line 1."""
    return schema_of_parts(_TOP, _REQUIRED, _PARTS)


def outside_header_json(header: OutsideHeader) -> dict[str, Any]:
    """The object of line 1; fields equal to their defaults are left out."""
    given: dict[str, Any] = {
        "history": header.history,
        "view": header.view,
        "claims": fields_given(header.claims),
        "sink": fields_given(header.sink),
    }
    given |= {name: value for name, value in fields_given(header).items() if name not in _UNTOLD}
    if header.bounds != OutsideBounds():
        given["bounds"] = fields_given(header.bounds)
    if header.expects is not None:
        given["expects"] = fields_given(header.expects)
    if header.run is not None:
        given["run"] = header.run
    return given
