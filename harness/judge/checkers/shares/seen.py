"""One share as the screen sees it: what certainly holds in it, what is suspected, and what the whole needs of it.

Invariant: as the screen's. A share is a history of one subtask, so the screen follows it as it follows any history;
what depends on other subtasks (V18 between checkpoints of a job, V23, V24) is left to the fold.

What every share of a history is told of the rest, and which events make up a share.

A share is one subtask: the events of its attempts, its commits and its rows. The coordinator's events and the faults
are few, and every share is told all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from traceback import format_exc

from harness.history.event import (
    Abort,
    Ack,
    AttemptEvent,
    Commit,
    Done,
    Effect,
    End,
    Ended,
    Event,
    FaultEvent,
    GiveUp,
    Retire,
    Start,
)
from harness.history.header import Header
from harness.judge.checkers.screen.screen import Screen
from harness.judge.checkers.screen.totals import Distinct, Irregular
from harness.judge.checkers.screen_verdicts import ScreenEvidence, screen_evidence

TOLD_TO_ALL = (Done, Abort, Retire, FaultEvent, GiveUp, Ack)
"""The events that every share is told."""
OF_SHARES = (AttemptEvent, Commit, Effect)
"""The events that belong to one share, that of their `s`."""

by_number = attrgetter("n")


@dataclass(frozen=True, slots=True, kw_only=True)
class SharedEvents:
    """The rest of the history, as far as a share needs it."""

    header: Header
    told: Sequence[Event]
    """Those of `TOLD_TO_ALL`, in order."""
    last: Event
    """The last event of the whole history."""
    events: int
    """How many events the whole history has."""

    def told_to(self, s: int) -> list[Event]:
        """Without the acknowledgements of other subtasks."""
        return [event for event in self.told if not isinstance(event, Ack) or event.s == s]

    @property
    def has_acks(self) -> bool:
        """Whether any subtask acknowledged anything."""
        return any(isinstance(event, Ack) for event in self.told)


def with_told(batches: Iterable[Sequence[Event]], told: Sequence[Event]) -> Iterator[Sequence[Event]]:
    """The batches of a share, in order, with what it is told sorted in between."""
    at = 0
    for batch in batches:
        if not batch:
            continue
        first, until = at, batch[-1].n
        while at < len(told) and told[at].n < until:
            at += 1
        yield batch if first == at else sorted([*batch, *told[first:at]], key=by_number)
    if at < len(told):
        yield told[at:]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareSeen:
    """The small summary of one share that travels to the fold."""

    s: int
    grounds: ScreenEvidence | None
    """None: the share is irregular, and its exact checkers judge it."""
    suspected: frozenset[str] = frozenset()
    ended: bool | None
    """Whether its last attempt has ended; None: it has no attempt."""
    first_start_t: int | None
    last_end_t: int | None
    ids: Distinct = field(default_factory=Distinct)
    nonces: Distinct = field(default_factory=Distinct)
    seqs: Distinct = field(default_factory=Distinct)
    """Of its rows in the audit."""
    warnings: tuple[str, ...] = ()
    hashed: int
    """The hash of a known text: digests of processes with another hash seed cannot be compared."""


HASHED = "floodmark"


def see_share(s: int, around: SharedEvents, batches: Iterable[Sequence[Event]]) -> ShareSeen:
    """Run the screen over one share, in one pass and in constant memory."""
    course = Course(around.header, s)
    for batch in with_told(batches, around.told_to(s)):
        course.take(batch)
    return course.end(around)


class _ShareScreen(Screen):
    """The screen of one share. Mutable, as it is."""

    def end_at(self, last: Event, *, has_acks: bool) -> None:
        """Apply the checks at the end of the whole history."""
        self._clock = (last.n, last.t)
        self.account.acknowledged |= has_acks
        self.finish()


_MILESTONES = frozenset({Start, End, Ended, Effect})


class Course:
    """One share on its way through the screen. Mutable."""

    def __init__(self, header: Header, s: int) -> None:
        self.s = s
        self.warnings: tuple[str, ...] = ()
        self._screen = _ShareScreen(header)
        self._regular = True
        self._newest = 0
        self._ended: set[int] = set()
        self._first_start_t: int | None = None
        self._last_end_t: int | None = None
        self._seqs = Distinct()

    def take(self, events: Sequence[Event]) -> None:
        """Follow the next events; milestones are noted even of a share that has become irregular."""
        for event in events:
            if type(event) in _MILESTONES:
                self._note(event)
        self._seqs.settle()
        if self._regular:
            self._try(lambda: self._screen.feed(events))

    def _note(self, event: Event) -> None:
        match event:
            case Start():
                self._newest = max(self._newest, event.a)
                if self._first_start_t is None:
                    self._first_start_t = event.t
            case Ended():
                self._ended.add(event.a)
            case End():
                self._last_end_t = event.t
            case Effect():
                self._seqs.pending.append(event.seq)
            case _:
                pass

    def _try(self, step: Callable[[], object]) -> None:
        try:
            step()
        except Irregular:
            self._regular = False
        except Exception:  # noqa: BLE001  (a defect of the screen must cost time, not a verdict)
            self._regular = False
            self.warnings = (f"the screen failed, so a subtask was judged exactly:\n{format_exc()}",)

    def end(self, around: SharedEvents) -> ShareSeen:
        """The summary, with the checks at the end of the history applied."""
        screen, account = self._screen, self._screen.account
        if self._regular:
            self._try(lambda: screen.end_at(around.last, has_acks=around.has_acks))
        return ShareSeen(
            s=self.s,
            grounds=screen_evidence(screen) if self._regular else None,
            suspected=frozenset(account.suspected),
            ended=self._newest in self._ended if self._newest else None,
            first_start_t=self._first_start_t,
            last_end_t=self._last_end_t,
            ids=account.ids if self._regular else Distinct(),
            nonces=account.nonces if self._regular else Distinct(),
            seqs=self._seqs,
            warnings=self.warnings,
            hashed=hash(HASHED),
        )
