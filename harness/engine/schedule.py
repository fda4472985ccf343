"""The schedule: begins each fault when its trigger comes, ends it when its time is over, and repeats it if asked.

Answers to Jepsen's nemesis process. The same at every level; a `Place` supplies the clock and performs the faults.
Invariants: closing the schedule heals all faults one by one in reverse order; the error of a fault is raised, so that a
run does not go on without its fault.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Final, Generic, Protocol, TypeVar

from harness.faults.model.fault import Fault
from harness.scenario.moments import Awaited, Moments, awaited, due_us, instant_ms, shown_by

UNTIL_EFFECTIVE_US: Final = 10_000_000
"""How long a fault without a duration is active if no evidence is found."""
_PROLONGS_BY_US: Final = 50_000
_WORK_US: Final = 5_000


class Acting(Protocol):
    """One activation of a fault. Mutable."""

    @property
    def effective(self) -> bool:
        """Whether its evidence was found."""

    @property
    def armed_us(self) -> int | None:
        """Since when it is active; None: it is still being armed."""

    @property
    def ended(self) -> bool:
        """Whether it has healed or failed."""

    def start(self) -> None:
        """Arms it. If the attempt does it to itself, this may return only when it is over."""

    def look(self) -> None:
        """Checks for evidence and updates `effective`."""

    def end(self) -> None:
        """Begins to heal it; does not wait."""

    def report(self) -> None:
        """Called when it has healed: reports that once. Raises the fault's error."""

    def close(self) -> None:
        """Called at the end of the run: heals it and waits."""


A = TypeVar("A", bound=Acting)
A_co = TypeVar("A_co", bound=Acting, covariant=True)


class Place(Protocol[A_co]):
    """Performs faults and supplies the clock, for one level."""

    watches_to_the_end: bool
    """Whether an active fault may fail, so that it is checked even after its evidence was found."""
    prolongs_us: int
    """How much longer than its duration a fault may be active if it has no evidence by then."""

    @property
    def now_us(self) -> int:
        """The present time."""

    def at(self, instant_us: int, callback: Callable[[], None]) -> Callable[[], None]:
        """Calls back at that time; returns what cancels that."""

    def is_idle(self, fault: Fault) -> bool:
        """Whether nothing is at work that the fault could meet, so that it waits, at most for `prolongs_us`."""

    def look_again(self, callback: Callable[[], None], *, soon: bool) -> None:
        """Calls back after the place's polling interval; `soon`: at the next opportunity."""

    def lasts_ms(self, fault: Fault) -> int | None:
        """How long the fault is active; None: until its evidence is found."""

    def begins(self, fault: Fault, *, cycle: int, due_us: int) -> A_co:
        """Creates an activation of the fault."""


@dataclass(slots=True, kw_only=True)
class _Planned(Generic[A]):
    """The state of one fault. Mutable."""

    fault: Fault
    waits: Awaited
    after_ms: int | None
    """When it begins, by the time in its trigger; None: its trigger has none."""
    phase: str
    """At which an attempt can check whether its trigger has come."""
    lasts_ms: int | None
    """How long each activation is active; None: until its evidence is found."""
    first_us: int | None = None
    """When it was first due; None: its trigger has not come."""
    begun: int = 0
    """How many activations it has had."""
    now: _Turn[A] | None = None
    """Its present or last activation."""


@dataclass(slots=True, kw_only=True)
class _Turn(Generic[A]):
    """One activation of a fault, with its planned end. Mutable."""

    acting: A
    is_over: bool = False
    cancel_end: Callable[[], None] | None = None
    """Cancels the callback that ends it, once that is planned."""


@dataclass(slots=True, kw_only=True)
class Schedule(Generic[A]):
    """Call `come` whenever the counts of a run change. Mutable."""

    faults: Iterable[Fault]
    seed: int
    place: Place[A]
    _planned: list[_Planned[A]] = field(default_factory=list)
    _turns: list[_Turn[A]] = field(default_factory=list)
    _waiting: list[Callable[[], None]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._planned = [
            _Planned(
                fault=fault,
                waits=awaited(fault),
                after_ms=instant_ms(fault, seed=self.seed),
                phase=shown_by(fault.when),
                lasts_ms=self.place.lasts_ms(fault),
            )
            for fault in self.faults
        ]

    @property
    def is_empty(self) -> bool:
        """Whether it has no faults."""
        return not self._planned

    @property
    def acting(self) -> list[A]:
        """The newest activation of each fault that has begun."""
        return [planned.now.acting for planned in self._planned if planned.now is not None]

    def come(self, moments: Moments, *, subtask: int | None = None, phase: str | None = None) -> None:
        """Begin the faults that are due; `phase`: the phase that an attempt of `subtask` has reached.

        A fault that the attempt does to itself begins immediately, at that phase.
        """
        for planned in self._planned:
            fault = planned.fault
            if planned.first_us is not None or (phase is not None and phase != planned.phase):
                continue
            instant_us = due_us(planned.waits, moments, after_ms=planned.after_ms, now_us=self.place.now_us)
            if instant_us is None:
                continue
            here = phase is not None and fault.attempts_own and fault.of_subtask in {None, subtask}
            if here and planned.after_ms is None:
                planned.first_us = instant_us
                self._begin(planned, instant_us)
            else:  # not now: the loop would get the loss of a connection in the middle of a call
                self._due_at(planned, instant_us)

    def _due_at(self, planned: _Planned[A], instant_us: int) -> None:
        if planned.first_us is None:
            planned.first_us = instant_us
        self._waiting.append(self.place.at(instant_us, partial(self._begin_at_work, planned, instant_us)))

    def _begin_at_work(self, planned: _Planned[A], instant_us: int) -> None:
        place = self.place
        if place.now_us < instant_us + place.prolongs_us and place.is_idle(planned.fault):
            again = partial(self._begin_at_work, planned, instant_us)
            self._waiting.append(place.at(place.now_us + _WORK_US, again))
        else:
            self._begin(planned, instant_us)

    def _begin(self, planned: _Planned[A], instant_us: int) -> None:
        acting = self.place.begins(planned.fault, cycle=planned.begun, due_us=instant_us)
        turn = _Turn(acting=acting)
        planned.now, planned.begun = turn, planned.begun + 1
        self._turns.append(turn)
        self._plan_end(planned, turn)
        self.place.look_again(partial(self._look, planned, turn), soon=True)
        acting.start()

    def _plan_end(self, planned: _Planned[A], turn: _Turn[A]) -> None:
        """Its duration counts from when it is armed."""
        armed_us = turn.acting.armed_us
        if turn.cancel_end is None and armed_us is not None and planned.lasts_ms is not None:
            turn.cancel_end = self.place.at(
                armed_us + planned.lasts_ms * 1000, partial(self._over, planned, turn)
            )

    def _over(self, planned: _Planned[A], turn: _Turn[A]) -> None:
        """Its duration is over; ends it, unless it has no evidence and the place lets it wait for some."""
        acting, place, lasts_ms = turn.acting, self.place, planned.lasts_ms
        assert acting.armed_us is not None, "its duration has begun"
        assert lasts_ms is not None, "it has a duration"
        until_us = acting.armed_us + lasts_ms * 1000 + place.prolongs_us
        if acting.effective or acting.ended or place.now_us >= until_us:
            self._end(planned, turn)
        else:
            turn.cancel_end = place.at(place.now_us + _PROLONGS_BY_US, partial(self._over, planned, turn))

    def _look(self, planned: _Planned[A], turn: _Turn[A]) -> None:
        """Checks for evidence; ends a fault without a duration when it is found, or after `UNTIL_EFFECTIVE_US`."""
        acting, place = turn.acting, self.place
        if turn.is_over:
            return
        if acting.ended:
            self._end(planned, turn)
            return
        armed_us = acting.armed_us
        if turn.cancel_end is None:
            self._plan_end(planned, turn)
        if armed_us is None:
            place.look_again(partial(self._look, planned, turn), soon=True)
            return
        acting.look()
        effective = acting.effective
        if planned.lasts_ms is None and (effective or place.now_us - armed_us >= UNTIL_EFFECTIVE_US):
            self._end(planned, turn)
        elif not effective or place.watches_to_the_end:
            place.look_again(partial(self._look, planned, turn), soon=False)

    def _end(self, planned: _Planned[A], turn: _Turn[A]) -> None:
        if not turn.is_over:
            turn.is_over = True
            turn.acting.end()
            self._await_healed(planned, turn)

    def _await_healed(self, planned: _Planned[A], turn: _Turn[A]) -> None:
        """Plans the next activation once this one has healed; a delay does not shift later ones."""
        if not turn.acting.ended:
            self.place.look_again(partial(self._await_healed, planned, turn), soon=True)
            return
        turn.acting.report()
        if planned.begun < planned.fault.comes:
            assert planned.first_us is not None, "what has acted was due"
            next_us = planned.first_us + planned.begun * planned.fault.every_ms * 1000
            self._due_at(planned, max(self.place.now_us, next_us))

    def end_active(self) -> None:
        """Begins to heal the faults that are active now; one that repeats comes again."""
        for planned in self._planned:
            if planned.now is not None and planned.now.acting.armed_us is not None:
                self._end(planned, planned.now)

    def close(self) -> None:
        """Ends the schedule: cancels planned activations and heals active ones, the last one first."""
        for cancel in self._waiting:
            cancel()
        with ExitStack() as stack:
            for turn in self._turns:
                stack.callback(self._close, turn)

    def _close(self, turn: _Turn[A]) -> None:
        if turn.cancel_end is not None:
            turn.cancel_end()
        turn.is_over = True
        turn.acting.close()
