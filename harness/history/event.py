"""Events of a history, one struct for each kind, with exactly the fields of `docs/reference/history.md` (Events).

Answers to Jepsen's operations. Invariant: an event is a frozen value; `n` is the total order, `t` is microseconds
of the run's monotonic clock. `UNSET` means that the field is absent, which differs from null. A constructor
checks nothing. The annotations are the one declaration of the fields: `fields` makes the checks of a line, its
messages and the JSON Schema from them, `columnar` the columns, and `read` decodes by them.

Causes: who caused a failure, as a history names it in `by` (V24).

Invariant: a cause is known, never guessed. An exception that a fault or the scenario raises carries its cause; one that
the service raised is `outside` only if no fault of the run can have made the service raise it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

OUTSIDE = "outside"
"""Cause outside of the run: a signal that the harness did not send, an error of the service itself."""
PLANTED = "planted"
"""Cause in the scenario, but no fault."""
CAUSES_OUTSIDE = (OUTSIDE, PLANTED)
"""Causes that name no fault."""


class Caused(Exception):
    """A failure that a fault or the scenario raises; `by` is the fault's name, or `PLANTED`."""

    def __init__(self, message: str, *, by: str) -> None:
        super().__init__(message)
        self.by = by


def cause_of(
    error: BaseException, *, is_outside: Callable[[BaseException], bool] = lambda error: False
) -> str | None:
    """The cause that `error` or an error behind it carries; None: not known."""
    chain = [error]
    while (cause := chain[-1].__cause__) is not None:
        chain.append(cause)
    named = next((one.by for one in chain if isinstance(one, Caused)), None)
    if named is not None:
        return named
    return OUTSIDE if any(is_outside(one) for one in chain) else None


Id = int | str
"""The id of a record; `1` and `"1"` are different ids."""
W = int | Literal["end"]
"""A watermark; `"end"` is the final one, higher than all others."""
AtLeast0 = Annotated[int, Meta(ge=0)]
AtLeast1 = Annotated[int, Meta(ge=1)]


def _is_element(element: dict[str, object]) -> bool:
    match element:
        case {"id": _, "w": _}:
            return False
        case {"id": id_}:
            return type(id_) is int or isinstance(id_, str)
        case {"w": w, "pos": pos}:
            return (type(w) is int or w == "end") and type(pos) is int
    return False


_ID_SCHEMA = {"type": ["integer", "string"]}
_W_SCHEMA = {"anyOf": [{"type": "integer"}, {"const": "end"}]}
_ELEMENT_SCHEMA = {
    "type": "object",
    "oneOf": [
        {"required": ["id"], "properties": {"id": _ID_SCHEMA, "w": False}},
        {"required": ["w", "pos"], "properties": {"w": _W_SCHEMA, "pos": {"type": "integer"}, "id": False}},
    ],
}
_SUBTASKS_SCHEMA = {
    "type": "array",
    "items": {"type": "integer", "minimum": 0},
    "minItems": 1,
    "uniqueItems": True,
}
Elements = Annotated[
    list[dict[str, Any]],
    Meta(
        description='a list of {"id": ...} and {"w": ..., "pos": ...}',
        extra_json_schema={"type": "array", "items": _ELEMENT_SCHEMA},
        extra={"holds": lambda value: all(map(_is_element, value))},
    ),
]
_Subtasks = Annotated[
    list[AtLeast0],
    Meta(
        min_length=1,
        description="a list of at least one subtask, none twice",
        extra_json_schema=_SUBTASKS_SCHEMA,
        extra={"holds": lambda value: len(set(value)) == len(value)},
    ),
]
Phase = Literal["begin", "end"]
Met = Literal["limit", "error", "nothing"]
"""What a call met before it failed: a limit of time that passed, an error of the database or of its connection, neither
of the two. The order is that in which one of several counts."""
_Cause = Annotated[str | UnsetType, Meta(extra={"claim": "explained"})]


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
    t: AtLeast0
    thread: str | UnsetType = UNSET
    mail: int | UnsetType = UNSET


class AttemptEvent(_At, frozen=True, kw_only=True):
    """Base of the events of one attempt of one subtask."""

    s: AtLeast0
    a: AtLeast1


class Start(AttemptEvent, frozen=True, kw_only=True, tag="start"):
    """Attempt `a` begins with its source at `pos`; `from_` is the checkpoint it restores, or None."""

    from_: int | None = msgspec.field(name="from")
    pos: int
    by: _Cause = UNSET


class Restore(AttemptEvent, frozen=True, kw_only=True, tag="restore"):
    """The operator restores these elements, in this order."""

    c: int
    elements: Elements


class In(AttemptEvent, frozen=True, kw_only=True, tag="in"):
    """The operator takes a record from the source."""

    pos: int
    id: Id
    key: Any | UnsetType = UNSET
    ts: int | UnsetType | None = UNSET
    expect: list[Any] | UnsetType = UNSET
    part: int | UnsetType = UNSET
    """The partition of the source that it comes from."""
    at: AtLeast0 | UnsetType = UNSET
    """Its place in that partition."""


class Wm(AttemptEvent, frozen=True, kw_only=True, tag="wm"):
    """The operator takes a watermark from the source."""

    pos: int
    w: W


class Call(AttemptEvent, frozen=True, kw_only=True, tag="call"):
    """An external call begins."""

    id: Id
    try_: AtLeast1 = msgspec.field(name="try")
    nonce: Any | UnsetType = UNSET


class Res(AttemptEvent, frozen=True, kw_only=True, tag="res"):
    """The operator accepts the outcome of a call."""

    id: Id
    try_: AtLeast1 = msgspec.field(name="try")
    r: Literal["ok", "fail", "timeout", "unknown"]
    final: bool
    v: list[Any] | UnsetType = UNSET
    nonce: Annotated[Any | UnsetType, Meta(extra={"after": "try"})] = UNSET
    error: Any | UnsetType = UNSET
    by: Annotated[str | UnsetType, Meta(extra={"claim": "explained", "after": "ver"})] = UNSET
    retry: Annotated[bool | UnsetType, Meta(extra={"claim": "retry"})] = UNSET
    """Whether the strategy retries this outcome, whatever the header's `retry.on` says."""
    ver: Annotated[AtLeast0 | UnsetType, Meta(extra={"claim": "versions"})] = UNSET
    """The version of the looked-up rows that the answer was read from."""
    raised: Annotated[Any | UnsetType, Meta(extra={"claim": "raised"})] = UNSET
    """The error with which the call, or the timeout handler, ended, recorded before any policy."""
    met: Annotated[Met | UnsetType, Meta(extra={"claim": "explained"})] = UNSET
    """Of a `fail`, where it is known."""


class Out(AttemptEvent, frozen=True, kw_only=True, tag="out"):
    """The operator emits result `j` of a record."""

    id: Id
    j: AtLeast0
    v: Any
    ts: int | UnsetType | None = UNSET


class Owm(AttemptEvent, frozen=True, kw_only=True, tag="owm"):
    """The operator emits a watermark."""

    w: W


class Snap(AttemptEvent, frozen=True, kw_only=True, tag="snap"):
    """The snapshot that the subtask takes for checkpoint `c`."""

    c: int
    pos: Annotated[int, Meta(extra={"after": "elements"})]
    elements: Elements


class Dead(AttemptEvent, frozen=True, kw_only=True, tag="dead"):
    """The record goes to the dead-letter output, by the declared policy."""

    id: Id


class Failed(AttemptEvent, frozen=True, kw_only=True, tag="failed"):
    """The attempt reports its failure."""

    error: Any
    id: Id | UnsetType = UNSET
    by: _Cause = UNSET


class End(AttemptEvent, frozen=True, kw_only=True, tag="end"):
    """The source has no more input."""


class Ended(AttemptEvent, frozen=True, kw_only=True, tag="ended"):
    """The operator has emitted everything and is finished."""


class Close(AttemptEvent, frozen=True, kw_only=True, tag="close"):
    """The attempt is closed."""


class Kill(AttemptEvent, frozen=True, kw_only=True, tag="kill"):
    """The attempt is known to be dead: its process was reaped."""

    by: _Cause = UNSET


class Held(AttemptEvent, frozen=True, kw_only=True, tag="held"):
    """The attempt's thread goes on, or is killed.

    Since `since`, on the clock of `t`, it waited for its sink, or was stopped, and ran no timer.
    """

    since: AtLeast0


class Done(_At, frozen=True, kw_only=True, tag="done"):
    """The coordinator completes a checkpoint."""

    c: int


class Abort(_At, frozen=True, kw_only=True, tag="abort"):
    """The coordinator aborts a checkpoint."""

    c: int


class Rescale(_At, frozen=True, kw_only=True, tag="rescale"):
    """The subtasks `of` end at checkpoint `c`; the subtasks `to` take over what they stored in it."""

    c: int
    of: _Subtasks
    to: _Subtasks


class Retire(_At, frozen=True, kw_only=True, tag="retire"):
    """No checkpoint up to `c` may be restored any more."""

    c: int


class Commit(_At, frozen=True, kw_only=True, tag="commit"):
    """The sink makes the subtask's epoch `c` visible."""

    s: AtLeast0
    c: int
    a: AtLeast1 | UnsetType = UNSET


class Ack(_At, frozen=True, kw_only=True, tag="ack"):
    """The coordinator accepts the acknowledgement of attempt `a` for checkpoint `c`. Not an event of the attempt."""

    s: AtLeast0
    a: AtLeast1
    c: int


class Effect(_At, frozen=True, kw_only=True, tag="effect"):
    """A row of the database's audit log, read after the run."""

    s: AtLeast0
    id: Id
    token: int
    seq: int
    j: int | UnsetType = UNSET
    v: Any | UnsetType = UNSET


class FaultEvent(_At, frozen=True, kw_only=True, tag="fault"):
    """A fault begins, or ends with its evidence."""

    f: str
    phase: Phase
    stalls: Annotated[bool | UnsetType, Meta(extra={"phase": "begin"})] = UNSET
    can: Annotated[
        list[Literal["failed", "kill", "start", "res", "late"]] | UnsetType,
        Meta(extra={"phase": "begin", "claim": "explained"}),
    ] = UNSET
    """The kinds of events that it may cause without being named in their `by`; `late`: a `res` for want of time."""
    s: Annotated[AtLeast0 | UnsetType, Meta(extra={"phase": "begin", "claim": "explained"})] = UNSET
    """The only subtask whose events it may cause."""
    evidence: Annotated[dict[str, Any] | UnsetType, Meta(extra={"phase": "end", "required": True})] = UNSET


class GiveUp(_At, frozen=True, kw_only=True, tag="giveup"):
    """The harness stopped waiting."""

    why: Any


class Row(_At, frozen=True, kw_only=True, tag="row"):
    """A row of a table of the header, read after the run."""

    table: str
    id: Id
    j: AtLeast0 | UnsetType = UNSET
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
    rows: AtLeast0


class Change(_At, frozen=True, kw_only=True, tag="change"):
    """Between `begin` and `end` the looked-up rows of `key` (absent: of every key) become version `ver`."""

    phase: Phase
    ver: AtLeast1
    key: Any | UnsetType = UNSET


Emission = Out | Owm
OfAttempt = (
    Start
    | Restore
    | In
    | Wm
    | Call
    | Res
    | Out
    | Owm
    | Snap
    | Dead
    | Failed
    | End
    | Ended
    | Close
    | Kill
    | Held
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
    | Row
    | TableRead
    | Change
    | FaultEvent
    | GiveUp
)
