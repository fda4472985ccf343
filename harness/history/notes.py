"""Notes: what the files of a run hold besides events, one struct for each kind; its `k` begins with `~`.

The merge reconstructs commits with them; triggers, the evidence of faults and pitfalls are found in them. Invariant: no
note is in a history. A log sets `n` and `t`, and a journal `s` and `a`.
"""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from harness.history.event import Event, Id


class Note(msgspec.Struct, frozen=True, kw_only=True, tag_field="k"):
    """Base of all notes; `n` is the number of the line in its file, from 0."""

    n: int = 0
    t: int = 0


Line = Event | Note
"""A line of a file of a run; its `n` is that of the file, and its `t` the machine's clock."""


class AttemptNote(Note, frozen=True, kw_only=True):
    """Base of the notes that an attempt writes, or a driver that commits for it (which has `a` 0)."""

    s: int = 0
    a: int = 0


class NoteLog(Protocol):
    """The attempt's journal, for whoever only notes something in it, before what it announces."""

    def note(self, note: AttemptNote) -> None: ...


class InProcess(AttemptNote, frozen=True, kw_only=True, tag="~process"):
    """The attempt runs in this process from here on."""

    pid: int
    started: int


class OnHost(AttemptNote, frozen=True, kw_only=True, tag="~host"):
    host: str
    executor: str
    driver: int


class Made(AttemptNote, frozen=True, kw_only=True, tag="~made"):
    """The attempt is over, and its journal has made so many events by its own count."""

    events: int


class Refused(AttemptNote, frozen=True, kw_only=True, tag="~refused"):
    """The function under test breaks a rule, so the run is not judged."""

    what: str
    fix: str


class _CheckpointNote(AttemptNote, frozen=True, kw_only=True):
    c: int


class Stopped(_CheckpointNote, frozen=True, tag="~stopped"):
    """The attempt stops at a complete checkpoint, because its subtask is rescaled."""


class CommitBegun(_CheckpointNote, frozen=True, tag="~committing"):
    """Lets the merge reconstruct a commit; `a` is the attempt that prepared it."""


class HeardComplete(_CheckpointNote, frozen=True, tag="~completed"):
    """The attempt was notified of a complete checkpoint for which its sink has nothing to commit."""


class BatchBegun(_CheckpointNote, frozen=True, tag="~batch"): ...


class BatchSkipped(_CheckpointNote, frozen=True, tag="~skipped"):
    """The batch is not run, because its epoch is visible."""


class RestoreFallback(_CheckpointNote, frozen=True, kw_only=True, tag="~store"):
    """Checkpoint `c` is complete and its `file` cannot be read (`what`), so `to` is restored instead."""

    what: str
    file: str
    to: int | None


class ClientError(AttemptNote, frozen=True, kw_only=True):
    """Base of what a client got over `link` in place of an answer."""

    link: str
    code: int | str


class LostConnection(ClientError, frozen=True, tag="~lost"): ...


class ServerError(ClientError, frozen=True, tag="~error"):
    """An error that keeps the connection."""


class OwnClient(AttemptNote, frozen=True, tag="~own-client"):
    """The lookup has its own client, whose losses and errors are not recorded."""


class Reached(AttemptNote, frozen=True, kw_only=True, tag="~reached"):
    """A fault is triggered by this phase, which no event shows."""

    phase: str


class Dies(AttemptNote, frozen=True, kw_only=True, tag="~dies"):
    fault: str
    phase: str
    hit: int
    how: str


class Stops(AttemptNote, frozen=True, kw_only=True, tag="~stops"):
    """The attempt stops itself next, for a fault; the harness resumes it."""

    fault: str = msgspec.field(name="f")


class _InsideNote(AttemptNote, frozen=True, kw_only=True):
    fault: str = msgspec.field(name="f")
    what: str
    facts: dict[str, Any] = {}


class Acted(_InsideNote, frozen=True, tag="~acted"):
    """A fault acts inside the attempt next."""


class Measured(_InsideNote, frozen=True, tag="~measured"):
    """A consequence of a fault, measured inside the attempt."""


class Alive(AttemptNote, frozen=True, tag="~alive"):
    """The event loop is running."""


class LoopBlocked(AttemptNote, frozen=True, kw_only=True, tag="~blocked"):
    """The event loop was blocked for `ms` while the function under test was at `where`."""

    ms: float
    where: str


class LoopHeld(Note, frozen=True, kw_only=True, tag="~held"):
    """As `LoopBlocked`, but `ms` of real time in all, at level sim."""

    ms: float
    where: str


class PoolUse(AttemptNote, frozen=True, kw_only=True, tag="~pool"):
    """The counters of the lookups' connection pool; the `calm` ones up to its first error."""

    size: int
    opened: int
    waited: int
    longest_wait_ms: float
    calm_asked: int
    calm_waited: int


class HiddenError(AttemptNote, frozen=True, kw_only=True, tag="~hidden"):
    """A call of a user's lookup returned a result although it met an error at line `met`."""

    id: Id
    error: str
    met: str
    caught: str | None


class _ConnectionsNote(AttemptNote, frozen=True, kw_only=True):
    times: int
    where: str


class KeptConnections(_ConnectionsNote, frozen=True, tag="~kept"):
    """So many connections of the pool were never given back."""


class NestedAcquire(_ConnectionsNote, frozen=True, kw_only=True, tag="~nested"):
    """So many times a call that held a connection of line `held` waited for another; `got`: so often it got that."""

    held: str
    got: int


class OwnConnections(_ConnectionsNote, frozen=True, tag="~connected"):
    """Calls made so many connections of their own."""


class Hurried(_ConnectionsNote, frozen=True, kw_only=True, tag="~hurried"):
    """A call asked so many times in a row without a pause."""

    id: Id


class Deciding(Note, frozen=True, kw_only=True, tag="~deciding"):
    """The coordinator is about to store that checkpoint `c` is complete."""

    c: int


class ProcessReaped(Note, frozen=True, kw_only=True, tag="~reaped"):
    s: int
    pid: int
    code: int


class KilledFromOutside(Note, frozen=True, kw_only=True, tag="~outside"):
    """No fault sent the signal that ended the attempt's process."""

    s: int
    a: int
    signal: str


class Withheld(Note, frozen=True, tag="~withheld"):
    """Stands for lines that are withheld from the evidence of a fault; never in a file."""


class FaultNote(Note, frozen=True, kw_only=True):
    """Base of the notes about one activation of an outside fault."""

    fault: str = msgspec.field(name="f")
    cycle: int


class FaultDue(FaultNote, frozen=True, kw_only=True, tag="~due"):
    due: int


class Arming(FaultNote, frozen=True, tag="~arming"):
    """The fault may act from now on."""


class Armed(FaultNote, frozen=True, kw_only=True, tag="~armed"):
    """The fault acts; `logged`: the proxy keeps a log of it."""

    logged: bool


class TookEffect(FaultNote, frozen=True, tag="~bit"):
    """The first evidence of the fault was found."""


class Found(FaultNote, frozen=True, kw_only=True, tag="~found"):
    facts: dict[str, Any]


class ProxyActed(FaultNote, frozen=True, kw_only=True, tag="~deed"):
    deed: dict[str, Any]


class Healing(FaultNote, frozen=True, tag="~healing"):
    """The fault is removed next."""


class Healed(FaultNote, frozen=True, tag="~healed"): ...
