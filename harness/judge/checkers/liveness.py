"""V16 liveness: after the last fault has healed, the operator makes progress until the end of its input.

Answers to FLINK-40456 and to lost wake-ups. Invariant: no `giveup` (the run's driver stopped waiting) while every
fault had ended at least the bound `recover` before. O(n log n) for each `giveup`; memory grows with the input of
the last attempts.

A circuit that stays open, or a pool whose slots are lost, stops nobody where a policy turns each failure into a
substitute or a dead letter. So with the bound `service_after` the outcomes after the last fault are compared with those
before the first one.
"""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter
from typing import NamedTuple

from harness.history.event import Call, Dead, FaultEvent, GiveUp, Id, In, Out, Owm, Res, Restore, Wm
from harness.history.service import Service
from harness.history.stalls import fault_spans
from harness.history.values import shown
from harness.history.verdict import Anomaly, let, let_all
from harness.judge.checkers.attempt_state import AttemptProgress, MarksLeft
from harness.judge.checkers.history_trace import AttemptTrace
from harness.judge.checkers.indexed_history import IndexedHistory, SubtaskView
from harness.judge.checkers.inputs import Element, Mark, RecordOf, element_name, elements_of
from harness.judge.checkers.invariant import Findings, Invariant, convict

_US_PER_MS = 1000
_SINCE_NAMED = 4


class Liveness(Invariant):
    """Checks V16 at each `giveup`."""

    name = "V16"
    vacuous = ""
    unsettled = ""

    def across(self, case: IndexedHistory) -> Findings:
        """Each `giveup`, unless a fault that is active or ended recently excuses the operator."""
        anomalies: list[Anomaly] = []
        pending: list[str] = []
        for giveup in case.trace.giveups:
            excuse = _excuse(case, giveup)
            if excuse:
                pending.append(excuse)
            else:
                anomalies.append(_stuck(case, giveup))
        service = Service(case.header)
        if service.is_claimed:
            attempts = [attempt for view in case.views for attempt in view.subtask.attempts.values()]
            counted: list[FaultEvent | Res] = [*case.trace.faults]
            counted += (event for attempt in attempts for event in attempt.events if isinstance(event, Res))
            for event in sorted(counted, key=attrgetter("n")):
                service.step(event)
        if service.is_gone:
            anomalies.append(_unserved(service))
        if not case.finished and not case.trace.giveups:
            pending.append("the run did not finish normally, and the history has no giveup")
        return Findings(
            anomalies=tuple(anomalies), pending=tuple(pending), observed=len(case.trace.giveups), exposed=True
        )


def _unserved(service: Service) -> Anomaly:
    healed, first, last = service.healed, service.first, service.last
    assert healed is not None
    assert first is not None
    assert last is not None
    (calm, calm_unserved), (later, unserved) = service.before, service.after
    told = f"{unserved} of {later} outcomes are failures or timeouts"
    say = (
        f"service does not return: from {service.grace_ms} ms after the end of the last fault (event {healed.n}) on"
        f" {told}, and before the first fault {calm_unserved} of {calm}"
    )
    then = [
        f"The last fault ended at {let(healed.n)}, and no fault was active after it.",
        f"From {service.grace_ms} ms after it on, {told}; the first is {let(first.n)}, the last {let(last.n)}.",
        f"Before the first fault {calm_unserved} of {calm} were.",
    ]
    rule = f"once the last fault has healed, at most {service.percent_max} % of the outcomes are failures or timeouts"
    return convict("unserved", None, {healed.n, first.n, last.n}, say, then, rule)


def _excuse(case: IndexedHistory, giveup: GiveUp) -> str:
    """The fault that may explain the lack of progress; empty if none."""
    running: dict[str, int] = {}
    recover_ms = case.header.bounds.recover
    recent = ""
    for fault in case.trace.faults:
        if fault.n > giveup.n:
            break
        running[fault.f] = running.get(fault.f, 0) + (1 if fault.phase == "begin" else -1)
        if fault.phase == "end" and giveup.t - fault.t < recover_ms * _US_PER_MS:
            recent = f"had ended less than {recover_ms} ms before"
            recent = f"the fault {shown(fault.f)} {recent} the wait was given up (event {giveup.n})"
    active = next((name for name, times in running.items() if times > 0), None)
    if active is not None:
        return f"the fault {shown(active)} was active when the wait was given up (event {giveup.n})"
    return recent


class _Came(NamedTuple):
    """An element of an attempt's input, and the event that brought it in."""

    event: Restore | In | Wm
    place: int
    """Its index in the elements of one `restore`; else 0."""
    view: SubtaskView
    element: Element


def _stuck(case: IndexedHistory, giveup: GiveUp) -> Anomaly:
    recover_ms = case.header.bounds.recover
    when = f"{recover_ms} ms after the last fault" if recover_ms else "with no fault active"
    rule = f"{when} the operator makes progress until its end"
    oldest = [came for view in case.views if (came := _first_unresolved(view, giveup.n)) is not None]
    since = f"the run had not ended when the wait was given up (event {giveup.n}), and no fault explains that"
    if not oldest:
        say = f"{since}: every element taken in was resolved"
        return convict("stuck", None, (giveup.n,), say, lambda: _faults_over(case, giveup), rule)
    came = min(oldest, key=lambda came: (came.event.n, came.place))
    element, s = came.element, came.view.s
    named = element_name(element)

    def then() -> Iterator[str]:
        yield f"{let(came.event.n)} brought {named} into the operator."
        if isinstance(element, RecordOf):
            yield f"After that{_since(came, element.id, giveup)}."
        waited_ms = (giveup.t - came.event.t) / _US_PER_MS
        yield f"It was still unresolved at {let(giveup.n)}, {waited_ms:.3f} ms later."
        yield from _faults_over(case, giveup)

    say = f"{since}: {named} of subtask {s}, taken in by event {came.event.n}, was still unresolved"
    return convict("stuck", s, (came.event.n, giveup.n), say, then, rule, about=element)


def _since(came: _Came, record: Id, giveup: GiveUp) -> str:
    """What happened to the record since it came in."""
    story = came.view.story
    about = [*story(record, Call), *story(record, Res), *story(record, Out), *story(record, Dead)]
    since = [event.n for event in about if came.event.n < event.n < giveup.n]
    if not since:
        return " it had no call, no outcome and no result"
    return f", only {let_all(sorted(since)[-_SINCE_NAMED:])} concerned it"


def _faults_over(case: IndexedHistory, giveup: GiveUp) -> Iterator[str]:
    if isinstance(giveup.why, str) and giveup.why:
        yield f"Why the wait was given up, by {let(giveup.n)}: {giveup.why}."
    spans = fault_spans(case.trace.faults)
    ends = [span.end for span in spans if span.end is not None]
    if not spans:
        yield "No fault was ever active."
    elif len(ends) == len(spans) and (last := max(ends, key=lambda end: end.n)).n < giveup.n:
        since_ms = (giveup.t - last.t) / _US_PER_MS
        yield f"The last fault had ended at {let(last.n)}, {since_ms:.3f} ms before."


def _first_unresolved(view: SubtaskView, until: int) -> _Came | None:
    """The first unresolved element of the newest attempt that had started before event `until`."""
    rescale = view.case.rescalings.ended.get(view.s)
    if rescale is not None and rescale.n < until:
        return None
    started = (a for a in view.subtask.attempts.values() if a.start is not None and a.start.n < until)
    attempt = max(started, key=lambda attempt: attempt.a, default=None)
    if attempt is None:
        return None
    taken = view.inputs[attempt.a]
    coalesces = view.case.header.operator.coalesces_watermarks
    progress, left = AttemptProgress(view.source), MarksLeft(taken, coalesces=coalesces)
    for event in attempt.events:
        if event.n > until:
            break
        if isinstance(event, Owm):
            left.step(event)
        else:
            progress.step(event)
    for came in _arrivals(view, attempt, until):
        element = came.element
        done = element in left if isinstance(element, Mark) else progress.resolved(element.id)
        if not done:
            return came
    return None


def _arrivals(view: SubtaskView, attempt: AttemptTrace, until: int) -> Iterator[_Came]:
    for event in attempt.events:
        if event.n > until:
            return
        match event:
            case Restore():
                for place, element in enumerate(elements_of(event.elements)):
                    yield _Came(event, place, view, element)
            case In():
                yield _Came(event, 0, view, RecordOf(event.id))
            case Wm():
                yield _Came(event, 0, view, Mark(event.pos, event.w))
            case _:
                pass
