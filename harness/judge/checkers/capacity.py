"""V14 capacity: no more elements are in flight than the queue has slots, and at most one record waits for a slot.

Answers to the bounded queue of Flink's `AsyncWaitOperator`. Convicts operators that call all restored elements
at once, or free a slot before its result has left. Invariant: in each attempt the records called and not
resolved, plus the watermarks between them if `watermark_slots` is set, never exceed the capacity. O(n log n);
memory grows with the elements in flight and the attempt's watermarks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import islice

from harness.history.event import Call, Dead, Id, In, OfAttempt, Out, Owm, Res, Restore, Wm
from harness.history.values import shown
from harness.history.verdict import Anomaly, let, let_all, sentence
from harness.judge.checkers.attempt_state import AttemptProgress, WatermarkSlots
from harness.judge.checkers.history_trace import AttemptTrace
from harness.judge.checkers.indexed_history import SubtaskView
from harness.judge.checkers.inputs import AttemptInput, Mark, elements_of
from harness.judge.checkers.invariant import Findings, Invariant, convict

_NAMED_MAX = 8
_WITNESSES_MAX = 20
"""Most open calls that an anomaly lists; a queue may hold thousands."""


class Capacity(Invariant):
    """Checks V14 for each attempt."""

    name = "V14"
    vacuous = "no call was made, so nothing took up capacity"

    def examine(self, view: SubtaskView) -> Findings:
        """Each call for which no slot was free; each record taken in while another one waited for a slot."""
        anomalies: list[Anomaly] = []
        calls = 0
        for a, attempt in view.subtask.attempts.items():
            calls += sum(isinstance(event, Call) for event in attempt.events)
            anomalies += _of_attempt(view, attempt, view.inputs[a])
        return Findings(anomalies=tuple(anomalies), observed=calls, exposed=calls > 0)


def _of_attempt(view: SubtaskView, attempt: AttemptTrace, taken: AttemptInput) -> Iterator[Anomaly]:
    capacity = view.case.header.operator.capacity
    in_flight, entrance = _InFlight(view, taken), _Entrance()
    for event in attempt.events:
        match event:
            case In():
                if (other := entrance.oldest) is not None:
                    yield _over_admitted(event, other)
                outcome = attempt.outcomes.get(event.id)
                if not in_flight.has_called(event.id) and (outcome is None or outcome.n > event.n):
                    entrance.enter(event)
            case Call():
                entrance.leave(event.id)
                before = len(in_flight)
                in_flight.step(event)
                if before < len(in_flight) > capacity:
                    yield _over_capacity(event, in_flight, capacity)
            case _:
                if isinstance(event, Res | Dead) and attempt.outcomes.get(event.id) is event:
                    entrance.leave(event.id)
                in_flight.step(event)


class _Entrance:
    """Records taken from the source that have neither a call nor an outcome. Mutable."""

    def __init__(self) -> None:
        self._waiting: set[Id] = set()
        self._order: deque[In] = deque()
        """A record that waits no more is removed when it reaches the front."""

    @property
    def oldest(self) -> In | None:
        while self._order and self._order[0].id not in self._waiting:
            self._order.popleft()
        return self._order[0] if self._order else None

    def enter(self, taken: In) -> None:
        self._waiting.add(taken.id)
        self._order.append(taken)

    def leave(self, record: Id) -> None:
        self._waiting.discard(record)


class _InFlight:
    """Elements that hold a slot after each event of the attempt. Mutable."""

    def __init__(self, view: SubtaskView, taken: AttemptInput) -> None:
        operator = view.case.header.operator
        self._taken = taken
        self._progress = AttemptProgress(view.source)
        self._called: dict[Id, Call] = {}
        self._open: dict[Id, Call] = {}
        self._oldest: deque[Call] = deque()
        """The calls in the order in which they opened; a resolved one is removed when it reaches the front."""
        self._slots: WatermarkSlots | None = None
        if operator.watermark_slots:
            self._slots = WatermarkSlots(taken, coalesces=operator.coalesces_watermarks)

    def __len__(self) -> int:
        return len(self._open) + self.watermarks

    @property
    def watermarks(self) -> int:
        """The number of slots that watermarks hold."""
        return 0 if self._slots is None else len(self._slots)

    def has_called(self, record: Id) -> bool:
        return record in self._called

    def step(self, event: OfAttempt) -> None:
        match event:
            case Call():
                self._call(event)
            case Out() | Res() | Dead():
                record = self._progress.step(event)
                if record in self._called:
                    self._settle(self._called[record])
            case Wm() | Owm() | Restore() if self._slots is not None:
                _move(self._slots, event)
            case _:
                pass

    def open_calls(self) -> list[int]:
        """The oldest open calls, as event numbers."""
        while self._oldest and self._open.get(self._oldest[0].id) is not self._oldest[0]:
            self._oldest.popleft()
        oldest = islice(self._oldest, _WITNESSES_MAX)
        return [call.n for call in oldest if self._open.get(call.id) is call]

    def _call(self, call: Call) -> None:
        first = self._called.setdefault(call.id, call)
        self._settle(first)
        pos = self._taken.records.get(call.id)
        if pos is not None and self._slots is not None:
            self._slots.call(pos)

    def _settle(self, call: Call) -> None:
        """Mark a called record as open or closed by its current state."""
        if self._progress.resolved(call.id):
            self._open.pop(call.id, None)
        elif call.id not in self._open:
            self._open[call.id] = call
            self._oldest.append(call)


def _move(slots: WatermarkSlots, event: Wm | Owm | Restore) -> None:
    match event:
        case Wm():
            slots.take(Mark(event.pos, event.w))
        case Owm():
            slots.emit(event)
        case Restore():
            for element in elements_of(event.elements):
                if isinstance(element, Mark):
                    slots.take(element)


def _over_capacity(call: Call, in_flight: _InFlight, capacity: int) -> Anomaly:
    marks = in_flight.watermarks
    held = f"{len(in_flight) - marks} records called and not resolved"
    held += f", {marks} watermark{'s' * (marks > 1)} between them" if marks else ""
    say = (
        f"the call of record {shown(call.id)} brings what is in flight in attempt {call.a} of subtask"
        f" {call.s} to {len(in_flight)} ({held}), and the capacity is {capacity}"
    )
    others = sorted({*in_flight.open_calls()} - {call.n})
    named = let_all(others[:_NAMED_MAX])
    named += f" and {len(others) - _NAMED_MAX} more" if len(others) > _NAMED_MAX else ""
    fact = [f"At {let(call.n)} these calls were still unresolved: {named}."] if others else []
    then = (*fact, sentence(say))
    rule = f"no more than {capacity} are in flight at once"
    return convict("over-capacity", call.s, (*others, call.n), say, then, rule, id=call.id)


def _over_admitted(taken: In, waits: In) -> Anomaly:
    say = (
        f"attempt {taken.a} of subtask {taken.s} takes record {shown(taken.id)} (position {taken.pos}) from"
        f" its source while record {shown(waits.id)} (position {waits.pos}) still waits to be called"
    )
    then = (
        f"{let(waits.n)} had come in, and was neither called nor had an outcome.",
        f"{let(taken.n)} was taken from the source nevertheless.",
    )
    rule = "at most one record waits for a slot"
    return convict("over-admitted", taken.s, (waits.n, taken.n), say, then, rule, id=taken.id)
