"""The findings: for each fault of a scenario, when it was active in a run, and its evidence.

Invariant: findings are computed from the recorded lines only; a fault whose trigger never came has a finding without
times.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.faults.change_rows import change_events
from harness.faults.model.fault import Fault, FoundFault, OutsideFault
from harness.faults.real.evidence import Evidence, Seen, as_the_proxy_saw, evidence_of
from harness.faults.real.witnesses import witnesses_of, witnesses_of_found
from harness.faults.registry import fault_of
from harness.history.event import Call, Change, Commit, FaultEvent, Res
from harness.history.follower import timed_calls
from harness.history.notes import (
    Armed,
    Arming,
    ClientError,
    CommitBegun,
    FaultDue,
    FaultNote,
    Found,
    Healed,
    Healing,
    Line,
    LostConnection,
    OwnClient,
    ProxyActed,
    ServerError,
    TookEffect,
)
from harness.scenario.model import Scenario
from harness.scenario.outcome import FaultRecord, FaultTime
from harness.system.errors import BlindHarness, HarnessError


def findings(scenario: Scenario, lines: Sequence[Line]) -> list[FaultRecord]:
    """One finding for each fault, in the scenario's order."""
    run = _run_of(lines)
    return [_finding(fault, run) for fault in scenario.faults]


def refuse_blind_faults(scenario: Scenario) -> None:
    """Raises BlindHarness if a fault has evidence in lines of what went wrong before it was armed."""
    for fault in scenario.faults:
        for time in _finding(fault, _run_of([*_TROUBLE_BEFORE, *armed_lines(fault)])).times:
            refuse_invented(fault, time.evidence)


def refuse_invented(fault: Fault, evidence: Mapping[str, object]) -> None:
    """Raises BlindHarness if there is evidence of a fault that has acted on nothing."""
    if evidence:
        message = (
            f"fault {fault.id} ({fault.do}) has evidence of an effect before it has acted: {dict(evidence)}"
        )
        raise BlindHarness(message, fix="please report it; nothing that this fault shows counts")


_ARMED_US = 3_000_000
_HEALED_US = 4_000_000
_TROUBLE_BEFORE: Sequence[Line] = (
    Call(n=0, t=100_000, s=0, a=1, id=1, try_=1),
    CommitBegun(t=100_000, s=0, a=1, c=1),
    *(
        kind(t=900_000, s=0, a=1, link=link, code=2013)
        for link in ("lookups", "sink")
        for kind in (LostConnection, ServerError)
    ),
    Res(n=0, t=900_000, s=0, a=1, id=1, try_=1, r="fail", final=True, error="lost"),
    Commit(n=0, t=900_000, s=0, a=1, c=1),
)
"""A slow call, a slow commit and lost connections, two seconds before a fault is armed."""


def armed_lines(fault: Fault) -> list[Line]:
    """Lines that say when a fault was armed and healed, a second later, and nothing else."""
    return [
        FaultDue(fault=fault.id, cycle=0, t=_ARMED_US, due=_ARMED_US),
        Arming(fault=fault.id, cycle=0, t=_ARMED_US),
        Armed(fault=fault.id, cycle=0, t=_ARMED_US + 1, logged=True),
        Healing(fault=fault.id, cycle=0, t=_HEALED_US),
        Healed(fault=fault.id, cycle=0, t=_HEALED_US + 1),
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Run:
    """The lines of a run, prepared for the evidence of all faults."""

    lines: Sequence[Line]
    seen: Seen
    notes: Mapping[str, Mapping[int, Sequence[FaultNote]]]
    """The lines about each fault, by fault and activation."""
    has_own_client: bool
    """Whether the lookup has a client of its own."""


def _run_of(lines: Sequence[Line]) -> _Run:
    """Reads each line once for all faults."""
    notes: dict[str, dict[int, list[FaultNote]]] = {}
    for line in lines:
        if isinstance(line, FaultNote):
            notes.setdefault(line.fault, {}).setdefault(line.cycle, []).append(line)
    met = [line for line in lines if isinstance(line, ClientError)]
    seen = Seen(
        armed_us=0,
        healed_us=0,
        calls=[*timed_calls(lines, link="lookups"), *timed_calls(lines, link="sink")],
        losses=[(line.t, line.link, line.code) for line in met if isinstance(line, LostConnection)],
        errors=[(line.t, line.link, line.code) for line in met],
        events=lines,
    )
    return _Run(lines=lines, seen=seen, notes=notes, has_own_client=_has_own_client(lines))


def _finding(fault: Fault, run: _Run) -> FaultRecord:
    match fault:
        case FoundFault():
            times = _found(fault, run)
        case OutsideFault():
            notes = run.notes.get(fault.id, {})
            times = [_time(fault, notes[cycle], run) for cycle in sorted(notes)]
        case _:
            message = f"`{fault.do}` is neither done from outside nor found in the lines"
            raise HarnessError(message)
    return fault_record(fault, times)


def fault_record(fault: Fault, times: Iterable[FaultTime]) -> FaultRecord:
    """What became of a fault, with its plan."""
    plan = fault.model_dump(mode="json", by_alias=True, exclude_none=True)
    return FaultRecord(id=fault.id, kind=fault.do, plan=plan, times=tuple(times))


def _found(fault: FoundFault, run: _Run) -> list[FaultTime]:
    found = fault.recorded(run.lines)
    if found is None:
        return []
    return [
        FaultTime(
            armed_us=found.began_us,
            measured_us=found.measured_us,
            healed_us=found.ended_us,
            evidence=found.evidence,
            witnesses=witnesses_of_found(fault.recorded, run.lines) if found.evidence else (),
        )
    ]


def _has_own_client(lines: Sequence[Line]) -> bool:
    return any(isinstance(line, OwnClient) for line in lines)


def unseen_by_the_client(
    scenario: Scenario, found: Sequence[FaultRecord], lines: Sequence[Line]
) -> list[str]:
    """A sentence for each fault without evidence of a run whose lookup has a client of its own."""
    if not _has_own_client(lines):
        return []
    log = " or in the log of our own proxy (--proxy own; Toxiproxy keeps none)"
    return [
        f"The lookup has a client of its own, whose errors the harness does not see, so fault {fault.id} ({fault.do}) "
        f"had to show in the times of its calls{log if fault.by == 'link' else ''}, and did not."
        for fault, record in zip(scenario.faults, found, strict=True)
        if fault.by in {"link", "server"} and not any(time.evidence for time in record.times)
    ]


def _time(action: OutsideFault, notes: Sequence[FaultNote], run: _Run) -> FaultTime:
    """One activation; without a recorded end there is no evidence."""
    seen = run.seen

    def shown(under: Seen) -> Evidence:
        return action.evidence(as_the_proxy_saw(under, link=action.on_link) if run.has_own_client else under)

    first_us = {type(note): note.t for note in reversed(notes)}
    evidence: Mapping[str, Any] = {}
    witnesses: tuple[str, ...] = ()
    if Armed in first_us and Healing in first_us:
        keeps_log = any(isinstance(note, Armed) and note.logged for note in notes)
        log = [evidence_of(note.deed) for note in notes if isinstance(note, ProxyActed)]
        under = Seen(
            arming_us=first_us[Arming],
            armed_us=first_us[Armed],
            healed_us=first_us[Healing],
            calls=seen.calls,
            losses=seen.losses,
            errors=seen.errors,
            log=log if keeps_log else None,
            facts=[note.facts for note in notes if isinstance(note, Found)],
            events=seen.events,
        )
        evidence = shown(under)
        witnesses = witnesses_of(shown, under, by=action.by) if evidence else ()
    return FaultTime(
        planned_us=next((note.due for note in notes if isinstance(note, FaultDue)), None),
        armed_us=first_us.get(Arming),
        measured_us=first_us.get(TookEffect) if evidence else None,
        healed_us=first_us.get(Healed),
        evidence=evidence,
        witnesses=witnesses,
    )


def outside_events(records: Iterable[FaultRecord], lines: Sequence[Line]) -> list[FaultEvent | Change]:
    """The events of the history that no attempt recorded, on the recorders' clock and in the order of time.

    These are begin and end of each fault's activation, and of each change of the looked-up table.
    """
    faults = _fault_events(records, fails_open=_has_own_client(lines))
    return sorted([*faults, *change_events(lines)], key=lambda event: event.t)


def _fault_events(records: Iterable[FaultRecord], *, fails_open: bool) -> list[FaultEvent]:
    """`fails_open`: the lookup connects in its `open`, which fails the attempt if the fault is on."""
    events: list[FaultEvent] = []
    for record in records:
        fault = fault_of(record.plan)
        claims = dict(fault.claims)
        if fails_open and (fault.by == "server" or fault.on_link == "lookups"):
            claims["can"] = list(dict.fromkeys(["failed", *fault.effects]))
        for time in record.times:
            if time.armed_us is None:
                continue
            events.append(FaultEvent(n=0, t=time.armed_us, f=record.id, phase="begin", **claims))
            if time.healed_us is not None:
                evidence = dict(time.evidence)
                events.append(FaultEvent(n=0, t=time.healed_us, f=record.id, phase="end", evidence=evidence))
    return events
