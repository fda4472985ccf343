"""Notes: what the files of a run hold besides events, one struct for each kind; its `k` begins with `~`.

The merge reconstructs commits with them; triggers, the evidence of faults and pitfalls are found in them. Invariant: no
note is in a history. A log sets `n` and `t`, and a journal `s` and `a`.
"""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from harness.history.event import Event


class _Note(msgspec.Struct, frozen=True, kw_only=True, tag_field="k"):
    n: int = 0
    """The number of the line in its file, from 0."""
    t: int = 0


class AttemptNote(_Note, frozen=True, kw_only=True):
    """Base of the notes that an attempt writes, or a driver that commits for it (which has `a` 0)."""

    s: int = 0
    a: int = 0


class InProcess(AttemptNote, frozen=True, kw_only=True, tag="~process"):
    """The attempt runs in this process from here on."""

    pid: int
    started: int


class OnHost(AttemptNote, frozen=True, kw_only=True, tag="~host"):
    """Where on a cluster the attempt runs."""

    host: str
    executor: str
    driver: int


class Made(AttemptNote, frozen=True, kw_only=True, tag="~made"):
    """The attempt is over, and its journal has made so many events by its own count."""

    events: int


class Stopped(AttemptNote, frozen=True, kw_only=True, tag="~stopped"):
    """The attempt stops at a complete checkpoint, because its subtask is rescaled."""

    c: int


class Refused(AttemptNote, frozen=True, kw_only=True, tag="~refused"):
    """The function under test breaks a rule, so the run is not judged."""

    what: str
    fix: str


class CommitBegun(AttemptNote, frozen=True, kw_only=True, tag="~committing"):
    """Precedes the commit, so that the merge can reconstruct it; `a` is the attempt that prepared it."""

    c: int


class HeardComplete(AttemptNote, frozen=True, kw_only=True, tag="~completed"):
    """The attempt was notified of a complete checkpoint for which its sink has nothing to commit."""

    c: int


class RestoreFallback(AttemptNote, frozen=True, kw_only=True, tag="~store"):
    """Checkpoint `c` is complete and its `file` cannot be read (`what`), so `to` is restored instead."""

    what: str
    c: int
    file: str
    to: int | None


class BatchBegun(AttemptNote, frozen=True, kw_only=True, tag="~batch"):
    c: int


class BatchSkipped(AttemptNote, frozen=True, kw_only=True, tag="~skipped"):
    """The batch is not run, because its epoch is visible."""

    c: int


class LostConnection(AttemptNote, frozen=True, kw_only=True, tag="~lost"):
    """A connection over `link` was lost or refused."""

    link: str
    code: int | str


class ServerError(AttemptNote, frozen=True, kw_only=True, tag="~error"):
    """The server answered over `link` with an error that keeps the connection."""

    link: str
    code: int | str


class OwnClient(AttemptNote, frozen=True, kw_only=True, tag="~own-client"):
    """The lookup has its own client, whose losses and errors are not recorded."""


class Reached(AttemptNote, frozen=True, kw_only=True, tag="~reached"):
    """A fault is triggered by this phase, which no event shows."""

    phase: str


class Dies(AttemptNote, frozen=True, kw_only=True, tag="~dies"):
    """The attempt kills itself next, for a fault."""

    fault: str
    phase: str
    hit: int
    how: str


class Stops(AttemptNote, frozen=True, kw_only=True, tag="~stops"):
    """The attempt stops itself next, for a fault; the harness resumes it."""

    fault: str = msgspec.field(name="f")


class Acted(AttemptNote, frozen=True, kw_only=True, tag="~acted"):
    """A fault acts inside the attempt next."""

    fault: str = msgspec.field(name="f")
    what: str
    facts: dict[str, Any] = {}


class Measured(AttemptNote, frozen=True, kw_only=True, tag="~measured"):
    """A consequence of a fault, measured inside the attempt."""

    fault: str = msgspec.field(name="f")
    what: str
    facts: dict[str, Any] = {}


class Alive(AttemptNote, frozen=True, kw_only=True, tag="~alive"):
    """The event loop is running."""


class LoopBlocked(AttemptNote, frozen=True, kw_only=True, tag="~blocked"):
    """The event loop was blocked for `ms` while the function under test was at `where`."""

    ms: float
    where: str


class LoopHeld(_Note, frozen=True, kw_only=True, tag="~held"):
    """At level sim: the function under test held the thread for `ms` of real time at `where`."""

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

    id: int
    error: str
    met: str
    caught: str | None


class Hurried(AttemptNote, frozen=True, kw_only=True, tag="~hurried"):
    """A call asked so many times in a row without a pause."""

    id: int
    times: int
    where: str


class KeptConnections(AttemptNote, frozen=True, kw_only=True, tag="~kept"):
    """So many connections of the pool, taken at `where`, were never given back."""

    times: int
    where: str


class OwnConnections(AttemptNote, frozen=True, kw_only=True, tag="~connected"):
    """Calls made so many connections of their own at `where`."""

    times: int
    where: str


class Deciding(_Note, frozen=True, kw_only=True, tag="~deciding"):
    """The coordinator is about to store that checkpoint `c` is complete."""

    c: int


class ProcessReaped(_Note, frozen=True, kw_only=True, tag="~reaped"):
    s: int
    pid: int
    code: int


class KilledFromOutside(_Note, frozen=True, kw_only=True, tag="~outside"):
    """No fault sent the signal that ended the attempt's process."""

    s: int
    a: int
    signal: str


class Withheld(_Note, frozen=True, kw_only=True, tag="~withheld"):
    """Stands for lines that are withheld from the evidence of a fault; never in a file."""


class FaultNote(_Note, frozen=True, kw_only=True):
    """Base of the notes about one activation of an outside fault."""

    fault: str = msgspec.field(name="f")
    cycle: int


class FaultDue(FaultNote, frozen=True, kw_only=True, tag="~due"):
    due: int


class Arming(FaultNote, frozen=True, kw_only=True, tag="~arming"):
    """The fault may act from now on."""


class Armed(FaultNote, frozen=True, kw_only=True, tag="~armed"):
    """The fault acts; `logged`: the proxy keeps a log of it."""

    logged: bool


class TookEffect(FaultNote, frozen=True, kw_only=True, tag="~bit"):
    """The first evidence of the fault was found."""


class Found(FaultNote, frozen=True, kw_only=True, tag="~found"):
    """Facts that the fault itself recorded."""

    facts: dict[str, Any]


class ProxyActed(FaultNote, frozen=True, kw_only=True, tag="~deed"):
    """An event of the proxy's log."""

    deed: dict[str, Any]


class Healing(FaultNote, frozen=True, kw_only=True, tag="~healing"):
    """The fault is removed next."""


class Healed(FaultNote, frozen=True, kw_only=True, tag="~healed"):
    pass


Note = (
    InProcess
    | OnHost
    | Made
    | Stopped
    | Refused
    | CommitBegun
    | HeardComplete
    | RestoreFallback
    | BatchBegun
    | BatchSkipped
    | LostConnection
    | ServerError
    | OwnClient
    | Reached
    | Dies
    | Stops
    | Acted
    | Measured
    | Alive
    | LoopBlocked
    | LoopHeld
    | PoolUse
    | HiddenError
    | Hurried
    | KeptConnections
    | OwnConnections
    | Deciding
    | ProcessReaped
    | KilledFromOutside
    | Withheld
    | FaultDue
    | Arming
    | Armed
    | TookEffect
    | Found
    | ProxyActed
    | Healing
    | Healed
)
Line = Event | Note
"""A line of a file of a run; `n` is its number in that file, from 0, and `t` is on the machine's clock."""


class NoteLog(Protocol):
    """The attempt's journal, for whoever only notes something in it."""

    def note(self, note: AttemptNote) -> None:
        """Writes the note when this is called: before what it announces."""
