"""Small synthetic histories and the outcomes beside them: an honest run, and one whose restart lost records.

Invariant: everything is computed from the arguments, so a sample is the same bytes each time it is made.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from harness.history.verdict import Anomaly, InvariantVerdict, Judgement, Outcome, let
from harness.scenario.outcome import (
    CountedRun,
    Extent,
    FaultRecord,
    FaultTime,
    MissingRuns,
    RunOutcome,
    WorldDescription,
)
from reports.campaign_view import CampaignView, view_of

HOSTILE = "<script>alert(1)</script>]]>\x00\x1b[2J\u202e\u200f\ud800'\"&<!-- https://evil.example/`|@all"
"""What a payload may hold: markup, CDATA's end, control bytes, bidi marks, a lone surrogate."""

Event = dict[str, Any]

_BETWEEN_US = 4_000
_CHECKPOINT_EVERY = 25
_SLOW_US = (300_000, 620_000)
_KILL_US = 880_000
_AWAY_US = 160_000


@dataclass(slots=True, kw_only=True)
class _Subtask:
    """An ordered operator with unlimited speed, computed record by record."""

    s: int
    records: int
    forgets: bool
    events: list[Event] = field(default_factory=list)

    def run(self) -> list[Event]:
        kill_us = _KILL_US if self.s == 1 else None
        self._attempt(attempt=1, begin_us=1000 * self.s, begin=0, replay=[], until_us=kill_us)
        if kill_us is not None and any(e["t"] >= kill_us for e in self.events):
            self._die_and_restart(kill_us)
        return self.events

    def _die_and_restart(self, kill_us: int) -> None:
        self.events = [e for e in self.events if e["t"] < kill_us]
        committed = [e["c"] for e in self.events if e["k"] == "commit"]
        snap = next(e for e in self.events if e["k"] == "snap" and e["c"] == committed[-1])
        self._note(kill_us, "kill", a=1)
        self._attempt(
            attempt=2,
            begin_us=kill_us + _AWAY_US,
            begin=snap["pos"],
            replay=[e["id"] for e in snap["elements"]],
            until_us=None,
            checkpoint=snap["c"],
        )

    def _attempt(
        self,
        *,
        attempt: int,
        begin_us: int,
        begin: int,
        replay: list[int],
        until_us: int | None,
        checkpoint: int | None = None,
    ) -> None:
        self._note(begin_us, "start", a=attempt, pos=begin, **{"from": checkpoint})
        if checkpoint is not None:
            elements = [{"id": record} for record in replay]
            self._note(begin_us, "restore", a=attempt, c=checkpoint, elements=elements)
        left_us = begin_us
        now_us = begin_us
        waiting: list[tuple[int, int, int]] = []
        for record in [*replay, *range(begin + 1000 * self.s, self.records + 1000 * self.s)]:
            now_us += _BETWEEN_US
            position = record % 1000
            if record not in replay:
                if position > begin and position % _CHECKPOINT_EVERY == 0:
                    self._snapshot(attempt, now_us - 1500, position, waiting)
                self._note(now_us, "in", a=attempt, pos=position, id=record, expect=[f"v{record}"])
            self._note(now_us, "call", a=attempt, id=record, **{"try": 1})
            done_us = now_us + self._service_us(record, now_us)
            left_us = max(left_us, done_us)
            values = [f"v{record}"]
            self._note(done_us, "res", a=attempt, id=record, r="ok", final=True, v=values, **{"try": 1})
            self._note(left_us + 20, "out", a=attempt, id=record, j=0, v=values[0])
            waiting.append((record, done_us, left_us + 20))
            if position % 10 == 9:
                self._note(left_us + 30, "owm", a=attempt, w=position * 100)
        if until_us is None:
            self._note(max(left_us, now_us) + 500, "end", a=attempt)
            self._note(max(left_us, now_us) + 900, "ended", a=attempt)

    def _service_us(self, record: int, now_us: int) -> int:
        slow_us = 60_000 if _SLOW_US[0] <= now_us < _SLOW_US[1] else 0
        return 4_000 + (record * 7919) % 9_000 + slow_us + (40_000 if record % 25 == 18 else 0)

    def _snapshot(self, attempt: int, at_us: int, position: int, waiting: list[tuple[int, int, int]]) -> None:
        held = [r for r, done, left in waiting if left > at_us and not (self.forgets and done <= at_us)]
        c = position // _CHECKPOINT_EVERY
        elements = [{"id": record} for record in held]
        self._note(at_us, "snap", a=attempt, c=c, pos=position, elements=elements)
        self._note(at_us + 5_000, "commit", a=attempt, c=c)

    def _note(self, at_us: int, kind: str, **fields: Any) -> None:
        self.events.append({"t": at_us, "k": kind, "s": self.s, **fields})


def _faults() -> Iterator[Event]:
    evidence = {"calls slowed": 80, "median ms": 68.5}
    yield {"t": _SLOW_US[0], "k": "fault", "f": "spike", "phase": "begin"}
    yield {"t": _SLOW_US[1], "k": "fault", "f": "spike", "phase": "end", "evidence": evidence}
    yield {"t": _KILL_US, "k": "fault", "f": "crash", "phase": "begin"}
    yield {"t": _KILL_US + _AWAY_US, "k": "fault", "f": "crash", "phase": "end", "evidence": {"reaped": 1}}


def write_history(path: Path, *, records: int = 240, forgets: bool = False) -> list[Event]:
    """Write a history of two subtasks and answer its events; `forgets` plants the snapshot's defect."""
    events, text = _history(records, forgets)
    path.write_text(text, encoding="utf-8")
    return events


@cache
def _history(records: int, forgets: bool) -> tuple[list[Event], str]:  # noqa: FBT001 - a key of the cache
    events = [e for s in (0, 1) for e in _Subtask(s=s, records=records, forgets=forgets).run()]
    events = sorted([*events, *_faults()], key=lambda event: event["t"])
    numbered = [{"n": n, **event} for n, event in enumerate(events, start=1)]
    header = {
        "history": 1,
        "operator": {"mode": "ordered", "capacity": 20, "timeout_ms": 0},
        "sink": "atomic",
        "run": {"scenario": "sample"},
    }
    lines = [json.dumps(value) for value in (header, *numbered)]
    return numbered, "\n".join(lines) + "\n"


def _verdict(
    name: str, outcome: Outcome, why: str = "", observed: int = 0, *anomalies: Anomaly
) -> InvariantVerdict:
    return InvariantVerdict(invariant=name, outcome=outcome, why=why, observed=observed, anomalies=anomalies)


_JUDGED = {
    "V1": _verdict("V1", Outcome.PASS, "", 640),
    "V2": _verdict("V2", Outcome.NOT_CLAIMED, "the operator is ordered"),
    "V4": _verdict("V4", Outcome.PASS, "", 64),
    "V5": _verdict("V5", Outcome.PASS, "", 64),
    "V8": _verdict("V8", Outcome.PASS, "", 640),
    "V10": _verdict("V10", Outcome.PASS, "", 24),
    "V11": _verdict("V11", Outcome.PASS, "", 1),
    "V13": _verdict("V13", Outcome.VACUOUS, "no superseded attempt tried to commit"),
    "V23": _verdict("V23", Outcome.PASS, "", 2),
}


def judgement_of(**changed: InvariantVerdict) -> Judgement:
    """A judgement with some answers replaced; the worst that decides is its outcome."""
    verdicts = tuple({**_JUDGED, **changed}.values())
    decisive = [v.outcome for v in verdicts if v.outcome is not Outcome.NOT_CLAIMED and v.invariant != "V13"]
    order = (Outcome.PASS, Outcome.VACUOUS, Outcome.UNKNOWN, Outcome.FAIL)
    return Judgement(
        outcome=max(decisive, key=order.index),
        invariants=verdicts,
        accounting={"events": 2600, "records": 640, "outputs": 640, "attempts": 3, "checkpoints": 24},
    )


_PLAN: Mapping[str, Any] = {
    "scenario": "worker-killed-between-snapshot-and-commit",
    "operator": {"mode": "ordered", "capacity": 20, "timeout": 0},
    "workload": {"records": 320, "subtasks": 2},
    "decisive": ["V1", "V8", "V10", "V11"],
}


def outcome_of(history: Path, judgement: Judgement, **changed: Any) -> RunOutcome:
    """A run as the harness would hand it over."""
    spike = FaultRecord(
        id="spike",
        kind="latency",
        plan={"do": "latency", "link": "lookups", "delay": "60ms", "when": {"at": "300ms"}, "for": "320ms"},
        times=(
            FaultTime(
                planned_us=_SLOW_US[0] - 900,
                armed_us=_SLOW_US[0],
                measured_us=_SLOW_US[0] + 40_000,
                healed_us=_SLOW_US[1],
                evidence={"calls slowed": 80, "median ms": 68.5, "before ms": 8.1},
            ),
        ),
    )
    crash = FaultRecord(
        id="crash",
        kind="kill_worker",
        plan={"do": "kill_worker", "subtask": 1, "when": {"phase": "snapshot-taken", "hit": 9}},
        times=(
            FaultTime(
                armed_us=_KILL_US,
                measured_us=_KILL_US,
                healed_us=_KILL_US + _AWAY_US,
                evidence={"signal": 9, "reaped": 1, "next attempt": 2},
            ),
        ),
    )
    outcome = RunOutcome(
        run_id="01KAJ3V5Q8",
        scenario="worker-killed-between-snapshot-and-commit",
        about="A latency spike, then the worker dies before its commit: nothing is lost or doubled.",
        plan=_PLAN,
        level="spark",
        seed=735121,
        sut="reference",
        mutant=None,
        convicts=(),
        world=WorldDescription(
            kind="local",
            why="no container engine answered",
            server="MariaDB 11.8.3",
            proxy="Toxiproxy 2.12.0",
            ready_s=1.31,
        ),
        judgement=judgement,
        faults=(spike, crash),
        history=history,
        started_at="2026-11-21T14:31:07Z",
        duration_s=14.2,
        phases_s={"world": 1.31, "spark": 5.9, "run": 4.6, "merge": 0.1, "judge": 0.4},
        accounting={"rows": 640, "distinct": 640, "missing": 0, "doubled": 0, "disordered": 0},
        again=f"floodmark run {_PLAN['scenario']} --level spark --world local --seed 735121",
        versions={"floodmark": "0.1.0", "python": "3.11.7", "pyspark": "4.3.0", "java": "17.0.15"},
        threats=("The latency's jitter is the proxy's own and is not replayed bit for bit.",),
    )
    return replace(outcome, **changed)


def pass_outcome(folder: Path, **changed: Any) -> RunOutcome:
    """The honest run."""
    history = folder / "pass.jsonl"
    write_history(history)
    return outcome_of(history, judgement_of(), **changed)


def lost_outcome(folder: Path, **changed: Any) -> RunOutcome:
    """The run whose snapshots forget completed records that have not left: a restart loses them."""
    history = folder / "lost.jsonl"
    events = write_history(history, forgets=True)
    anomalies = tuple(_lost(events))
    missing = tuple(
        replace(a, kind="missing", say=f"record {a.id} is in no part of the cut", c=8) for a in anomalies
    )
    judgement = judgement_of(
        V8=_verdict("V8", Outcome.FAIL, "", 640 - len(anomalies), *anomalies),
        V10=_verdict("V10", Outcome.FAIL, "", 24, *missing),
    )
    counts = {"rows": 637, "distinct": 637, "missing": len(anomalies), "doubled": 0, "disordered": 0}
    return outcome_of(history, judgement, accounting=counts, **changed)


def _lost(events: list[Event]) -> Iterator[Anomaly]:
    """Records of subtask 1 that came in before the restored snapshot and whose output no epoch shows."""
    restore = next(e for e in events if e["k"] == "restore")
    mine = [event for event in events if event.get("s") == 1]
    start = next(e for e in mine if e["k"] == "start" and e["a"] == restore["a"])
    snap = next(e for e in mine if e["k"] == "snap" and e["c"] == restore["c"] and e["a"] == 1)
    left = {e["id"] for e in mine if e["k"] == "out" and (e["n"] < snap["n"] or e["a"] > 1)}
    for event in mine:
        if event["k"] == "in" and event["n"] < snap["n"] and event["id"] not in left:
            yield Anomaly(
                kind="lost",
                say=f"record {event['id']} was accepted and output 0 of it is visible in no epoch",
                events=(event["n"], snap["n"], restore["n"]),
                s=1,
                id=event["id"],
                then=(f"{let(start['n'])} restored {let(snap['n'])}, which does not hold the record.",),
                rule="after a normal finish every expected output is visible",
            )


def hostile_outcome(folder: Path) -> RunOutcome:
    """A failed run in which every text that a run can bring is hostile."""
    history = folder / "hostile.jsonl"
    lines = [
        {"history": 1, "operator": {"mode": "ordered", "capacity": 2, "timeout_ms": 0}},
        {"n": 1, "t": 5, "k": "start", "s": 0, "a": 1, "from": None, "pos": 0},
        {"n": 2, "t": 10, "k": "in", "s": 0, "a": 1, "pos": 0, "id": HOSTILE, "key": HOSTILE},
        {"n": 3, "t": 11, "k": "call", "s": 0, "a": 1, "id": HOSTILE, "try": 1},
        {"n": 4, "t": 900, "k": "res", "s": 0, "a": 1, "id": HOSTILE, "try": 1, "r": HOSTILE, "final": True},
        {"n": 5, "t": 950, "k": "out", "s": 0, "a": 1, "id": HOSTILE, "j": 0, "v": HOSTILE},
        {"n": 6, "t": 960, "k": "failed", "s": 0, "a": 1, "error": {"says": HOSTILE}},
    ]
    history.write_text("\n".join(map(json.dumps, lines)) + "\n", encoding="utf-8")
    anomaly = Anomaly(kind=HOSTILE, say=HOSTILE, events=(5,), s=0, id=HOSTILE, w=HOSTILE)
    judgement = replace(
        judgement_of(
            V8=_verdict("V8", Outcome.FAIL, HOSTILE, 1, anomaly), V5=_verdict("V5", Outcome.UNKNOWN, HOSTILE)
        ),
        warnings=(HOSTILE,),
        accounting={HOSTILE: 1},
    )
    fault = FaultRecord(
        id=HOSTILE,
        kind=HOSTILE,
        plan={HOSTILE: HOSTILE},
        times=(FaultTime(armed_us=11, healed_us=900, evidence={HOSTILE: HOSTILE}),),
    )
    world = WorldDescription(kind=HOSTILE, why=HOSTILE, server=HOSTILE, proxy=HOSTILE, ready_s=0.1)
    fields = ("run_id", "scenario", "about", "level", "sut", "mutant", "started_at", "again", "error")
    texts = dict.fromkeys(fields, HOSTILE)
    return outcome_of(
        history,
        judgement,
        **texts,
        world=world,
        faults=(fault,),
        plan={"note": HOSTILE, "decisive": ["V8"]},
        versions={HOSTILE: HOSTILE},
        accounting={HOSTILE: 3},
        phases_s={HOSTILE: 1.0},
        threats=(HOSTILE,),
        extras={"note": HOSTILE},
    )


def many(folder: Path, *, runs: int = 60, asked: int = 70) -> CampaignView:
    """An interrupted campaign of two scenarios, of which two runs are shown in full: `V8 lost`, and an exception."""
    error = "the lookup raised KeyError: 13 for record 7 (enrich.py:7)"
    full = [lost_outcome(folder, run_id="a", seed=5), lost_outcome(folder, run_id="b", seed=9, error=error)]
    counted = [
        *(_counted("cut", seed, pass_outcome(folder)) for seed in range(1, 5)),
        CountedRun.of(full[0]),
        CountedRun.of(full[1]),
        *(_counted("calm", seed, full[seed % 2] if seed % 9 == 0 else None) for seed in range(1, runs - 5)),
    ]
    seeds = tuple(range(runs - 5, asked - 5))
    missing = MissingRuns(
        scenario="calm", mutant=None, level="sim", seeds=seeds, why="the campaign was interrupted"
    )
    extent = Extent(asked=asked, interrupted=True, took_s=12.5, missing=(missing,))
    return view_of(full, counted=counted, extent=extent)


def counted_pass(scenario: str, seed: int, *, level: str = "sim") -> CountedRun:
    """A run that was only counted, and passed."""
    return CountedRun(
        scenario=scenario,
        mutant=None,
        level=level,
        seed=seed,
        verdict=Outcome.PASS,
        as_expected=True,
        events=1200,
        took_s=0.02,
        digest=f"{seed:064x}",
    )


def _counted(scenario: str, seed: int, like: RunOutcome | None) -> CountedRun:
    """A counted run with the verdict and the cause of `like`; None: a pass."""
    passed = counted_pass(scenario, seed)
    if like is None:
        return passed
    told = CountedRun.of(like)
    return replace(
        passed,
        verdict=told.verdict,
        as_expected=told.as_expected,
        cause=told.cause,
        violations=told.violations,
        again=f"floodmark run {scenario} --seed {seed}",
    )
