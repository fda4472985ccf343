"""A situation: everything that one random run consists of, as one value.

Answers to a generator's drawn options in Jepsen, and to the options that `vopr` prints. Invariant: a run depends on
its situation, its seed and the variant alone; whatever the header of its history claims follows from these
(`harness.sim.situation_header`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from harness.history.header import Effects, Mode, Sink

__all__ = [
    "PHASES",
    "Checkpoints",
    "Crash",
    "Disturbance",
    "DisturbanceKind",
    "Lookups",
    "Operator",
    "Phase",
    "Situation",
    "Stream",
    "Zombie",
]

Phase = Literal[
    "open",
    "restore.begin",
    "restore.mid",
    "accept",
    "wm",
    "call",
    "result",
    "emit",
    "snap.begin",
    "snap.end",
    "ack",
    "commit.post",
    "notify",
    "drain",
    "close",
    "instant",
]
PHASES: tuple[Phase, ...] = (
    "open",
    "restore.begin",
    "restore.mid",
    "accept",
    "wm",
    "call",
    "result",
    "emit",
    "snap.begin",
    "snap.end",
    "ack",
    "commit.post",
    "notify",
    "drain",
    "close",
    "instant",
)
"""Where an attempt can be stopped: see `harness.levels.sim.crashes`; `instant` is any instant, and its hit the ms."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Operator:
    """How the operator is set up, and who feeds it."""

    mode: Mode
    capacity: int
    timeout_ms: int
    """0: none."""
    on_timeout: Literal["fail", "answer", "dead-letter"] = "fail"
    on_error: Literal["fail", "dead-letter"] = "fail"
    """What becomes of a call that failed for good."""
    max_tries: int = 1
    backoff_ms: int = 1
    back_pressure: Literal["soft", "hard"] = "soft"
    """Hard: fed though the queue is full, it yields inside `process`, and checkpoints go on meanwhile."""
    downstream: tuple[int, int] | None = None
    """After so many emissions nobody has room for more, for so many ms; None: there always is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stream:
    """What the source sends to each subtask."""

    subtasks: int
    records: int
    keys: int
    width_max: int
    """Results of one record, at most; 1: each has one, else 0 to so many."""
    every_ms: int
    """Between two elements; 0: all are due at once."""
    watermark_every: int
    """Records between two watermarks; 0: none."""
    watermarks: Literal["rising", "repeating", "falling"] = "rising"
    """Falling: now and then one lower than the last, which an operator has to pass on."""
    final_watermark: bool = False
    timestamps: Literal["all", "some", "none"] = "all"
    reuses_objects: bool = False
    """The source reads each record into one object, so the operator has to copy it (FLINK-12351)."""
    tells_expected: bool = True
    """Whether the history says what the results of a record should be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookups:
    """How the external calls go; the shares are in percent of the calls."""

    latency_ms: tuple[int, int]
    slow_share: int = 0
    slow_ms: int = 0
    error_share: int = 0
    """Answered with an error; nothing took effect."""
    loss_share: int = 0
    """The connection is lost, with the request or with the reply."""
    unlucky_max: int = 2
    """So many calls of one record are slow, answered with an error or lost, at most."""
    writes: bool = False
    """Each call writes a row (`effects`: `records`), once, whatever is lost."""
    nonces: bool = True
    connections: int = 4
    """Of each attempt's pool."""
    cancels: bool = True
    """Whether a timeout cancels the request; else its answer comes late."""
    supplies: bool = False
    """Results are made on the task's thread, by a supplier, and not given with the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoints:
    """How checkpoints are cut and made visible."""

    sink: Sink
    style: Literal["barriers", "mail"]
    every: int
    """Positions between two barriers; ms between two mails."""
    tells_outputs: bool = False
    """The sink's tables have an audit log (`effects`: `outputs`)."""
    round_trip_ms: tuple[int, int] = (1, 3)
    """Of a statement of the sink, of an acknowledgement and of a notification."""
    notify_lost_share: int = 0
    notify_again_share: int = 0
    reply_lost_share: int = 0
    """Of the sink's transactions: it took effect, or not, and nobody is told which."""
    gives_up_ms: int = 500
    """A checkpoint that is not complete by then is aborted."""


DisturbanceKind = Literal["latency", "blackhole", "down", "reset", "errors", "lock", "stall", "clock-jump"]
"""The first four act on links; `errors` and `lock` on the table that is looked up; the others on the process."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Disturbance:
    """Something that goes wrong from the `at_call`-th external call of the run on."""

    name: str
    kind: DisturbanceKind
    at_call: int
    lasts_ms: int
    amount_ms: int = 0
    """How much latency; by how much the wall clock jumps, forward or back, until it is set right again."""
    links: tuple[Literal["lookups", "sink"], ...] = ("lookups",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Crash:
    """A SIGKILL at the `hit`-th time that `subtask` reaches `phase`, counted over its whole life."""

    name: str
    subtask: int
    phase: Phase
    hit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Zombie:
    """An attempt that stops at a phase for `paused_ms`, is taken for dead and replaced, and then goes on."""

    name: str
    subtask: int
    phase: Phase
    hit: int
    paused_ms: int
    then_kill_ms: int | None = None
    """So long after it has gone on, its successor is killed: what the zombie did meanwhile must not count."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Situation:
    """One random run, but for the draws of its calls."""

    operator: Operator
    stream: Stream
    lookups: Lookups
    checkpoints: Checkpoints
    disturbances: tuple[Disturbance, ...] = ()
    crashes: tuple[Crash, ...] = ()
    zombies: tuple[Zombie, ...] = ()
    back_ms: int = 10
    """From a death to the start of the next attempt, at most."""
    linger_ms: int = 0
    """How long an attempt's process outlives its `close`, so that answers still arrive."""

    @property
    def effects(self) -> Effects | None:
        """What the database shows each effect of once."""
        if self.lookups.writes:
            return "records"
        return "outputs" if self.checkpoints.tells_outputs else None

    @property
    def restarts_together(self) -> bool:
        """Whether all subtasks go back to one completed checkpoint; an atomic sink lets each have its own."""
        return self.checkpoints.sink != "atomic"

    @property
    def is_disturbed(self) -> bool:
        """Whether anything at all is done to it."""
        return bool(self.disturbances or self.crashes or self.zombies)
