"""Events of a history, one struct for each kind, with exactly the fields of `docs/reference/history.md` (Events).

Answers to Jepsen's operations. Invariant: an event is a frozen value; `n` is the total order, `t` is microseconds
of the run's monotonic clock. `UNSET` means that the field is absent, which differs from null. A constructor
checks nothing: `event_fields` and `rules.Rules` check input, or `fast_read` decodes it and checks the minimum that
a type states.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, UnsetType

Id = int | str
"""The id of a record; `1` and `"1"` are different ids."""
W = int | Literal["end"]
"""A watermark; `"end"` is the final one, higher than all others."""
_AtLeast0 = Annotated[int, msgspec.Meta(ge=0)]
_AtLeast1 = Annotated[int, msgspec.Meta(ge=1)]


class _At(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    tag_field="k",
    omit_defaults=True,
    forbid_unknown_fields=True,
    # JSON values have no cycles, and tracking a million events costs the collector more than reading them.
    gc=False,
):
    n: int
    t: _AtLeast0
    thread: str | UnsetType = UNSET
    mail: int | UnsetType = UNSET


class AttemptEvent(_At, frozen=True, kw_only=True):
    """Base of the events of one attempt of one subtask."""

    s: _AtLeast0
    a: _AtLeast1


class Start(AttemptEvent, frozen=True, kw_only=True, tag="start"):
    """Attempt `a` begins with its source at `pos`; `from_` is the checkpoint it restores, or None."""

    from_: int | None = msgspec.field(name="from")
    pos: int
    by: str | UnsetType = UNSET


class Restore(AttemptEvent, frozen=True, kw_only=True, tag="restore"):
    """The operator restores these elements, in this order."""

    c: int
    elements: list[dict[str, Any]]


class In(AttemptEvent, frozen=True, kw_only=True, tag="in"):
    """The operator takes a record from the source."""

    pos: int
    id: Id
    key: Any | UnsetType = UNSET
    ts: int | UnsetType | None = UNSET
    expect: list[Any] | UnsetType = UNSET
    part: int | UnsetType = UNSET
    """The partition of the source that it comes from."""
    at: _AtLeast0 | UnsetType = UNSET
    """Its place in that partition."""


class Wm(AttemptEvent, frozen=True, kw_only=True, tag="wm"):
    """The operator takes a watermark from the source."""

    pos: int
    w: W


class Call(AttemptEvent, frozen=True, kw_only=True, tag="call"):
    """An external call begins."""

    id: Id
    try_: _AtLeast1 = msgspec.field(name="try")
    nonce: Any | UnsetType = UNSET


class Res(AttemptEvent, frozen=True, kw_only=True, tag="res"):
    """The operator accepts the outcome of a call."""

    id: Id
    try_: _AtLeast1 = msgspec.field(name="try")
    r: Literal["ok", "fail", "timeout", "unknown"]
    final: bool
    v: list[Any] | UnsetType = UNSET
    nonce: Any | UnsetType = UNSET
    error: Any | UnsetType = UNSET
    by: str | UnsetType = UNSET
    retry: bool | UnsetType = UNSET
    """Whether the strategy retries this outcome, whatever the header's `retry.on` says."""
    ver: _AtLeast0 | UnsetType = UNSET
    """The version of the looked-up rows that the answer was read from."""


class Out(AttemptEvent, frozen=True, kw_only=True, tag="out"):
    """The operator emits result `j` of a record."""

    id: Id
    j: _AtLeast0
    v: Any
    ts: int | UnsetType | None = UNSET


class Owm(AttemptEvent, frozen=True, kw_only=True, tag="owm"):
    """The operator emits a watermark."""

    w: W


class Snap(AttemptEvent, frozen=True, kw_only=True, tag="snap"):
    """The snapshot that the subtask takes for checkpoint `c`."""

    c: int
    pos: int
    elements: list[dict[str, Any]]


class Dead(AttemptEvent, frozen=True, kw_only=True, tag="dead"):
    """The record goes to the dead-letter output, by the declared policy."""

    id: Id


class Failed(AttemptEvent, frozen=True, kw_only=True, tag="failed"):
    """The attempt reports its failure."""

    error: Any
    id: Id | UnsetType = UNSET
    by: str | UnsetType = UNSET


class End(AttemptEvent, frozen=True, kw_only=True, tag="end"):
    """The source has no more input."""


class Ended(AttemptEvent, frozen=True, kw_only=True, tag="ended"):
    """The operator has emitted everything and is finished."""


class Close(AttemptEvent, frozen=True, kw_only=True, tag="close"):
    """The attempt is closed."""


class Kill(AttemptEvent, frozen=True, kw_only=True, tag="kill"):
    """The attempt is known to be dead: its process was reaped."""

    by: str | UnsetType = UNSET


class Done(_At, frozen=True, kw_only=True, tag="done"):
    """The coordinator completes a checkpoint."""

    c: int


class Abort(_At, frozen=True, kw_only=True, tag="abort"):
    """The coordinator aborts a checkpoint."""

    c: int


class Rescale(_At, frozen=True, kw_only=True, tag="rescale"):
    """The subtasks `of` end at checkpoint `c`; the subtasks `to` take over what they stored in it."""

    c: int
    of: list[_AtLeast0]
    to: list[_AtLeast0]


class Retire(_At, frozen=True, kw_only=True, tag="retire"):
    """No checkpoint up to `c` may be restored any more."""

    c: int


class Commit(_At, frozen=True, kw_only=True, tag="commit"):
    """The sink makes the subtask's epoch `c` visible."""

    s: _AtLeast0
    c: int
    a: _AtLeast1 | UnsetType = UNSET


class Ack(_At, frozen=True, kw_only=True, tag="ack"):
    """The coordinator accepts the acknowledgement of attempt `a` for checkpoint `c`. Not an event of the attempt."""

    s: _AtLeast0
    a: _AtLeast1
    c: int


class Effect(_At, frozen=True, kw_only=True, tag="effect"):
    """A row of the database's audit log, read after the run."""

    s: _AtLeast0
    id: Id
    token: int
    seq: int
    j: int | UnsetType = UNSET
    v: Any | UnsetType = UNSET


class FaultEvent(_At, frozen=True, kw_only=True, tag="fault"):
    """A fault begins, or ends with its evidence."""

    f: str
    phase: Literal["begin", "end"]
    stalls: bool | UnsetType = UNSET
    can: list[Literal["failed", "kill", "start", "res"]] | UnsetType = UNSET
    """On `begin`: the kinds of events that it may cause without being named in their `by`."""
    s: _AtLeast0 | UnsetType = UNSET
    """On `begin`: the only subtask whose events it may cause."""
    evidence: dict[str, Any] | UnsetType = UNSET


class GiveUp(_At, frozen=True, kw_only=True, tag="giveup"):
    """The harness stopped waiting."""

    why: Any


class Row(_At, frozen=True, kw_only=True, tag="row"):
    """A row of a table of the header, read after the run."""

    table: str
    id: Id
    j: _AtLeast0 | UnsetType = UNSET
    v: Any | UnsetType = UNSET
    seq: int | UnsetType = UNSET
    token: int | UnsetType = UNSET
    """The attempt that wrote it."""
    c: int | UnsetType = UNSET
    """The epoch in which it was written."""
    error: Any | UnsetType = UNSET


class TableRead(_At, frozen=True, kw_only=True, tag="read"):
    """A table of the header has been read to its end; the database counts `rows` rows in it."""

    table: str
    rows: _AtLeast0


class Change(_At, frozen=True, kw_only=True, tag="change"):
    """Between `begin` and `end` the looked-up rows of `key` (absent: of every key) become version `ver`."""

    phase: Literal["begin", "end"]
    ver: _AtLeast1
    key: Any | UnsetType = UNSET


Emission = Out | Owm
OfAttempt = (
    Start | Restore | In | Wm | Call | Res | Out | Owm | Snap | Dead | Failed | End | Ended | Close | Kill
)
Event = (
    OfAttempt
    | Done
    | Abort
    | Retire
    | Rescale
    | Commit
    | Ack
    | Effect
    | FaultEvent
    | GiveUp
    | Row
    | TableRead
    | Change
)
