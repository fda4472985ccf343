"""The schedule: begins each fault when its trigger has come, ends it when its time is over, again if it repeats.

Answers to Jepsen's nemesis process. The same at every level; where faults act, and in whose time, is a `Place`.
Invariants: whatever was begun is healed when the schedule is closed, one after the other, in the reverse order; a
fault that breaks is raised, so that no run goes on without what it was meant to meet.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Generic, Protocol, TypeVar

from harness.faults.model.fault import Fault
from harness.scenario.model import At, Between
from harness.scenario.moments import Moments, due_us, shown_by

__all__ = ["UNTIL_EFFECTIVE_US", "Acting", "Place", "Schedule"]

UNTIL_EFFECTIVE_US: Final = 10_000_000
"""The longest that a fault without a duration acts while its evidence does not come."""


class Acting(Protocol):
    """One time that a fault acts. Mutable."""

    @property
    def bitten(self) -> bool:
        """Whether its evidence was seen."""

    @property
    def armed_us(self) -> int | None:
        """Since when it acts; None: it is still being armed."""

    @property
    def ended(self) -> bool:
        """Whether it has healed, or broken."""

    def start(self) -> None:
        """Arm it. Where an attempt does it to itself, this may return only when it is over."""

    def look(self) -> None:
        """Whether it has left evidence by now; `bitten` says so from then on."""

    def end(self) -> None:
        """Let it heal; does not wait."""

    def told(self) -> None:
        """It has healed: tell of it, once. Raises what it broke with."""

    def close(self) -> None:
        """The run is over: heal it, and wait until it has."""


A = TypeVar("A", bound=Acting)
A_co = TypeVar("A_co", bound=Acting, covariant=True)


class Place(Protocol[A_co]):
    """Where faults act, and in whose time."""

    watches_to_the_end: bool
    """Whether a fault may break while it acts, so that it is looked at after its evidence was seen, too."""

    @property
    def now_us(self) -> int:
        """The instant."""

    def at(self, instant_us: int, callback: Callable[[], None]) -> Any:
        """Call back at that instant; what `cancel` takes."""

    def cancel(self, alarm: Any) -> None:
        """Do not call back."""

    def look_again(self, callback: Callable[[], None], *, soon: bool) -> None:
        """Call back after the place's interval between two looks; `soon`: as soon as it can."""

    def lasts_ms(self, fault: Fault) -> int | None:
        """How long it acts; None: until its evidence is there."""

    def begins(self, fault: Fault, *, cycle: int, due_us: int) -> A_co:
        """One time of it begins."""


@dataclass(slots=True, kw_only=True)
class _Planned(Generic[A]):
    """One fault and where it stands. Mutable."""

    fault: Fault
    first_us: int | None = None
    """When it was due first; None: its trigger has not come."""
    begun: int = 0
    """How many times it has begun."""
    now: _Turn[A] | None = None
    """The time that it acts now, or acted last."""


@dataclass(slots=True, kw_only=True)
class _Turn(Generic[A]):
    """One time that a fault acts. Mutable."""

    acting: A
    is_over: bool = False
    end: Any = None
    """The alarm of its end, once that is known."""


@dataclass(slots=True, kw_only=True)
class Schedule(Generic[A]):
    """`come` whenever something has happened. Mutable."""

    faults: Iterable[Fault]
    seed: int
    place: Place[A]
    _planned: list[_Planned[A]] = field(default_factory=list)
    _turns: list[_Turn[A]] = field(default_factory=list)
    _waiting: list[Any] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._planned = [_Planned(fault=fault) for fault in self.faults]

    @property
    def is_empty(self) -> bool:
        """Whether it waits for nothing at all."""
        return not self._planned

    @property
    def acting(self) -> list[A]:
        """The newest time of each fault that has begun."""
        return [planned.now.acting for planned in self._planned if planned.now is not None]

    # ------------------------------------------------------------------------------------------- triggers

    def come(self, moments: Moments, *, subtask: int | None = None, phase: str | None = None) -> None:
        """Begin those whose trigger has come; an attempt of `subtask` is at `phase`, if one is named.

        What an attempt does to itself, it does at that very place.
        """
        now_us = self.place.now_us
        for planned in self._planned:
            fault = planned.fault
            if planned.first_us is not None or phase not in {None, shown_by(fault.when)}:
                continue
            instant_us = due_us(fault, moments, seed=self.seed, now_us=now_us)
            if instant_us is None:
                continue
            here = phase is not None and fault.attempts_own and fault.of_subtask in {None, subtask}
            if here and not isinstance(fault.when, At | Between):
                planned.first_us = instant_us
                self._begin(planned, instant_us)
            else:  # a cut connection would be told to a loop that is in the middle of a call
                self._due_at(planned, instant_us)

    def _due_at(self, planned: _Planned[A], instant_us: int) -> None:
        if planned.first_us is None:
            planned.first_us = instant_us
        self._waiting.append(self.place.at(instant_us, partial(self._begin, planned, instant_us)))

    # --------------------------------------------------------------------------------------------- acting

    def _begin(self, planned: _Planned[A], instant_us: int) -> None:
        acting = self.place.begins(planned.fault, cycle=planned.begun, due_us=instant_us)
        turn = _Turn(acting=acting)
        planned.now, planned.begun = turn, planned.begun + 1
        self._turns.append(turn)
        self._plan_end(planned, turn)
        self.place.look_again(partial(self._look, planned, turn), soon=True)
        acting.start()

    def _plan_end(self, planned: _Planned[A], turn: _Turn[A]) -> None:
        """Its time counts from when it is armed."""
        armed_us, lasts_ms = turn.acting.armed_us, self.place.lasts_ms(planned.fault)
        if turn.end is None and armed_us is not None and lasts_ms is not None:
            turn.end = self.place.at(armed_us + lasts_ms * 1000, partial(self._end, planned, turn))

    def _look(self, planned: _Planned[A], turn: _Turn[A]) -> None:
        """Whether it has been effective; without a duration that is its end, and so is a long wait."""
        acting, place = turn.acting, self.place
        if turn.is_over:
            return
        if acting.ended:
            self._end(planned, turn)
            return
        self._plan_end(planned, turn)
        armed_us = acting.armed_us
        if armed_us is None:
            place.look_again(partial(self._look, planned, turn), soon=True)
            return
        acting.look()
        waited_us = place.now_us - armed_us
        if place.lasts_ms(planned.fault) is None and (acting.bitten or waited_us >= UNTIL_EFFECTIVE_US):
            self._end(planned, turn)
        elif not acting.bitten or place.watches_to_the_end:
            place.look_again(partial(self._look, planned, turn), soon=False)

    def _end(self, planned: _Planned[A], turn: _Turn[A]) -> None:
        """Heal it."""
        if not turn.is_over:
            turn.is_over = True
            turn.acting.end()
            self._await_healed(planned, turn)

    def _await_healed(self, planned: _Planned[A], turn: _Turn[A]) -> None:
        """Its next time may come when this one has healed; a late one makes no later one late."""
        if not turn.acting.ended:
            self.place.look_again(partial(self._await_healed, planned, turn), soon=True)
            return
        turn.acting.told()
        if planned.begun < planned.fault.comes:
            assert planned.first_us is not None, "what has acted was due"
            next_us = planned.first_us + planned.begun * planned.fault.every_ms * 1000
            self._due_at(planned, max(self.place.now_us, next_us))

    def close(self) -> None:
        """The run is over: nothing begins any more, and what acts is healed, the last that began first."""
        for alarm in self._waiting:
            self.place.cancel(alarm)
        with ExitStack() as stack:
            for turn in self._turns:
                stack.callback(self._close, turn)

    def _close(self, turn: _Turn[A]) -> None:
        if turn.end is not None:
            self.place.cancel(turn.end)
        turn.is_over = True
        turn.acting.close()
