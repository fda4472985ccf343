"""Histories seen from outside: the header and the events of `"view": "outside"`, one struct for each kind.

The contract is `docs/reference/history-outside.md`. A whole job that is not ours was put under fire; the history holds
what was put into its source, what was done to it, and what its table and the database's log of changes show. Invariant:
an event is a frozen value; `n` is the total order, `t` is microseconds. `UNSET` means that the field is absent, which
differs from null. A constructor checks nothing; the annotations are the one declaration of the fields, as in `event`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from harness.history.event import AtLeast0, AtLeast1, Phase
from harness.history.header import JUDGED, VERSION, Version

OUTSIDE = "outside"
"""The header's `view`."""

OutsideId = int | str | list[Any] | None
"""An id: the value of the id column, or the list of those of several. In rows null may stand for a column."""
Delivery = Literal["exactly-once", "at-least-once", "at-most-once"]
Write = Literal["append", "replace", "upsert"]
_Offered = Annotated[OutsideId, Meta(extra={"shape": "offered"})]
_Shown = Annotated[OutsideId, Meta(extra={"shape": "shown"})]
_Values = Annotated[list[Any], Meta(extra={"shape": "values"})]
_Number = Annotated[AtLeast0 | UnsetType, Meta(extra={"after": "id"})]
_Reading = Annotated[
    int,
    Meta(
        description="1 or 2",
        extra_json_schema={"enum": [1, 2]},
        extra={"holds": lambda value: value in {1, 2}},
    ),
]
_TextOrNull = Annotated[str | None, Meta(description="a string or null")]
_OnBegin, _OnEnd = Meta(extra={"phase": "begin"}), Meta(extra={"phase": "end"})


class _Seen(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    tag_field="k",
    omit_defaults=True,
    gc=False,
):
    n: int
    t: AtLeast0


class Offer(_Seen, frozen=True, kw_only=True, tag="offer"):
    """The harness has put this record into the source."""

    part: AtLeast0
    pos: int
    id: _Offered
    key: Any | UnsetType = UNSET
    expect: Annotated[list[Any] | UnsetType, Meta(extra={"shape": "rows"})] = UNSET
    """The rows that it must yield, each a list of the values of `sink.values`."""
    fails: bool | UnsetType = UNSET
    """Whether no right job can process it."""
    sentinel: bool | UnsetType = UNSET
    """Whether it only shows that what stands before it was passed: nothing of it has to be visible."""


class JobStart(_Seen, frozen=True, kw_only=True, tag="start"):
    """The harness starts the whole job, for the `start`-th time."""

    start: AtLeast1


class JobExit(_Seen, frozen=True, kw_only=True, tag="exit"):
    """The main process of a start was reaped; at least one of the three is known."""

    start: AtLeast1
    code: int | UnsetType = UNSET
    signal: AtLeast1 | UnsetType = UNSET
    by: str | UnsetType = UNSET
    """`harness`, `outside`, or the name of a fault."""


class JobFault(_Seen, frozen=True, kw_only=True, tag="fault"):
    """A fault takes hold, or ends with its evidence."""

    f: str
    phase: Phase
    stalls: Annotated[bool | UnsetType, _OnBegin] = UNSET
    can: Annotated[list[Literal["exit"]] | UnsetType, _OnBegin] = UNSET
    """The kinds of events that it may cause without being named in their `by`."""
    evidence: Annotated[dict[str, Any] | UnsetType, _OnEnd, Meta(extra={"required": True})] = UNSET
    error: Annotated[Any | UnsetType, _OnEnd] = UNSET
    """The fault itself failed."""
    why: Annotated[str | UnsetType, _OnEnd] = UNSET
    """Why it has no evidence, where that is known."""


class LogRow(_Seen, frozen=True, kw_only=True, tag="row"):
    """One change of one row, in the order of the database's log of changes."""

    op: Literal["insert", "update", "delete"]
    tx: int
    id: _Shown
    v: _Values
    j: _Number = UNSET
    was: dict[str, Any] | UnsetType = UNSET
    """The row before an `update`: `id`, `v`, and `j` if the header names it."""
    session: int | UnsetType | None = UNSET
    start: AtLeast1 | UnsetType | None = UNSET
    """The start that wrote it; absent or null: not known."""
    last: bool | UnsetType = UNSET
    """Whether it ends its transaction, which only then is visible."""


class AskedLookup(_Seen, frozen=True, kw_only=True, tag="asked"):
    """The database saw a lookup."""

    key: Any
    session: int | UnsetType | None = UNSET


class TableRow(_Seen, frozen=True, kw_only=True, tag="table"):
    """A row of the table, as SQL read it."""

    reading: _Reading
    id: _Shown
    v: _Values
    j: _Number = UNSET


class DeadLetterRow(_Seen, frozen=True, kw_only=True, tag="dead"):
    """A row of the dead-letter table, as SQL read it."""

    reading: _Reading
    id: _Shown
    error: Any | UnsetType = UNSET


class ExpectedRow(_Seen, frozen=True, kw_only=True, tag="expect"):
    """A row that the finished table must hold, where rows are of keys."""

    id: _Shown
    v: _Values


class PartRead(_Seen, frozen=True, kw_only=True, tag="read"):
    """Part of a reading has been read to its end; the database counts `rows` rows in it."""

    reading: _Reading
    of: Literal["table", "dead", "log"]
    rows: AtLeast0


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
    | ExpectedRow
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
    id: Annotated[
        tuple[str, ...],
        Meta(
            min_length=1,
            description="a list of at least one column",
        ),
    ]
    values: tuple[str, ...]
    rows: Literal["record", "key"] = "record"
    """What a row is of: one record, or a key, whose row many records may make."""
    j: _TextOrNull = None
    """The column that numbers a record's rows from 0; None: they are a multiset."""
    table: str | None = None
    changes: bool = True
    """Whether the database has a log of changes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutsideBounds:
    """Time limits in ms."""

    recover: AtLeast0 = 0
    quiet: AtLeast0 | None = None
    """Three times the longest gap of the calm twin; None: nothing is `settled`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutsideExpects:
    """Minimum counts that a run must reach, else V23 is vacuous."""

    records: AtLeast0 | None = None
    starts: AtLeast0 | None = None
    asked: AtLeast0 | None = None
    faults: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class OutsideHeader:
    """Line 1 of a history seen from outside."""

    history: Version = VERSION
    view: Annotated[Literal["outside"], Meta(extra={"required": True})] = "outside"
    claims: OutsideClaims
    sink: OutsideSink
    expect_from: Literal["given", "calm", "none"]
    partitions: AtLeast1 = 1
    dead_letters: _TextOrNull = None
    """The table of the records that failed for good."""
    decisive: (
        Annotated[tuple[str, ...], Meta(extra_json_schema=JUDGED, extra={"after": "expects"})] | None
    ) = None
    bounds: OutsideBounds = field(default_factory=OutsideBounds)
    expects: OutsideExpects | None = None
    run: Any = None
