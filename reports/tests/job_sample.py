"""Histories of a job seen from outside, with their outcomes: the three of the format's page, and a larger one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.history.verdict import Anomaly, InvariantVerdict, Judgement, Outcome
from harness.scenario.outcome import FaultRecord, FaultTime, RunOutcome, WorldDescription

Event = dict[str, Any]
_HEADER = {
    "history": 1,
    "view": "outside",
    "claims": {"delivery": "exactly-once"},
    "sink": {"write": "append", "id": ["id"], "values": ["name"], "table": "enriched"},
    "expect_from": "given",
}
_DOUBLED: tuple[Event, ...] = (
    {"n": 10, "t": 0, "k": "start", "start": 1},
    {"n": 20, "t": 10, "k": "offer", "part": 0, "pos": 0, "id": 1, "key": 5, "expect": [["Ann"]]},
    {"n": 30, "t": 11, "k": "offer", "part": 0, "pos": 1, "id": 2, "key": 6, "expect": [["Bob"]]},
    {"n": 40, "t": 50, "k": "row", "op": "insert", "tx": 7, "start": 1, "id": 1, "v": ["Ann"], "last": True},
    {"n": 50, "t": 60, "k": "fault", "f": "kill", "phase": "begin"},
    {"n": 60, "t": 61, "k": "exit", "start": 1, "signal": 9, "by": "kill"},
    {"n": 70, "t": 61, "k": "fault", "f": "kill", "phase": "end", "evidence": {"pid": 712, "held": "answer of INSERT"}},
    {"n": 80, "t": 70, "k": "start", "start": 2},
    {"n": 90, "t": 90, "k": "row", "op": "insert", "tx": 8, "start": 2, "id": 1, "v": ["Ann"]},
    {"n": 100, "t": 90, "k": "row", "op": "insert", "tx": 8, "start": 2, "id": 2, "v": ["Bob"], "last": True},
    {"n": 110, "t": 99, "k": "exit", "start": 2, "code": 0},
    {"n": 120, "t": 100, "k": "finished", "how": "exit"},
    {"n": 130, "t": 110, "k": "table", "reading": 1, "id": 1, "v": ["Ann"]},
    {"n": 140, "t": 110, "k": "table", "reading": 1, "id": 1, "v": ["Ann"]},
    {"n": 150, "t": 110, "k": "table", "reading": 1, "id": 2, "v": ["Bob"]},
    {"n": 160, "t": 111, "k": "read", "reading": 1, "of": "table", "rows": 3},
    {"n": 170, "t": 111, "k": "read", "reading": 1, "of": "log", "rows": 3},
)  # fmt: skip
_KILL = FaultRecord(
    id="kill",
    kind="kill_driver",
    plan={"when": {"sink": "write", "nth": 1, "moment": "after"}},
    times=(
        FaultTime(
            armed_us=55, measured_us=60, healed_us=61, evidence={"pid": 712, "held": "answer of INSERT"}
        ),
    ),
)


def job_outcome(
    folder: Path,
    events: Sequence[Event],
    *,
    anomalies: Mapping[str, Sequence[Anomaly]] | None = None,
    faults: Sequence[FaultRecord] = (_KILL,),
    header: Mapping[str, Any] = _HEADER,
    name: str = "job",
    plan: Mapping[str, Any] | None = None,
) -> RunOutcome:
    """An outcome of the level `job` whose history has these events; `anomalies` by invariant."""
    history = folder / f"{name}.jsonl"
    history.write_text("".join(json.dumps(value) + "\n" for value in (header, *events)), encoding="utf-8")
    found = anomalies or {}
    judged = [
        _verdict(invariant, found.get(invariant, ())) for invariant in ("V8", "V13", "V16", "V23", "V24")
    ]
    judged.insert(1, InvariantVerdict(invariant="V9", outcome=Outcome.NOT_CLAIMED, why="seen from outside"))
    outcome = Outcome.FAIL if any(found.values()) else Outcome.PASS
    return RunOutcome(
        run_id=f"20261126-000000-{name}",
        scenario="driver-killed",
        about="The driver is killed while the answer of its INSERT is held.",
        plan=plan or {"job_scenario": "driver-killed"},
        level="job",
        seed=7,
        sut="python job.py",
        mutant=None,
        convicts=(),
        world=WorldDescription(
            kind="local",
            why="no container engine answers",
            server="MariaDB 10.11.19",
            proxy="our own proxy",
            ready_s=1.0,
        ),
        judgement=Judgement(outcome=outcome, invariants=tuple(judged), accounting={"events": len(events)}),
        faults=tuple(faults),
        history=history,
        started_at="2026-11-26T00:00:00+00:00",
        duration_s=2.5,
        phases_s={"run": 2.4, "judge": 0.1},
        accounting={},
        again="floodmark job driver-killed --job job.toml --seed 7",
        versions={"python": "3.11"},
        extras={"job": {"engine": "plain", "source": "folder", "calm": {"first_row_ms": 120, "gap_ms": 15}}},
    )


def _verdict(invariant: str, anomalies: Sequence[Anomaly]) -> InvariantVerdict:
    outcome = Outcome.FAIL if anomalies else Outcome.PASS
    return InvariantVerdict(invariant=invariant, outcome=outcome, anomalies=tuple(anomalies), observed=20)


def doubled(folder: Path) -> RunOutcome:
    """The first history of the format's page: the successor writes a batch again."""
    say = "record 1 has 2 rows in the table; 1 is expected"
    return job_outcome(
        folder,
        _DOUBLED,
        anomalies={"V8": [Anomaly(kind="duplicate", say=say, events=(40, 90), id=1)]},
        name="doubled",
    )


def passed(folder: Path) -> RunOutcome:
    """The same without the first transaction: nothing is doubled."""
    events = [e for e in _DOUBLED if e["n"] not in {40, 130}]
    return job_outcome(folder, [_with_rows(e, 2) for e in events], name="passed")


def zombie(folder: Path) -> RunOutcome:
    """The second history: the COMMIT of start 1 takes effect after its successor's."""
    events = [e for e in _DOUBLED if e["n"] != 40]
    late = {**_DOUBLED[3], "n": 105, "t": 95, "tx": 9}
    events.insert(next(i for i, e in enumerate(events) if e["n"] == 110), late)
    say = "transaction 9 of start 1 has an effect after one of start 2"
    return job_outcome(
        folder,
        events,
        anomalies={
            "V8": [Anomaly(kind="duplicate", say="record 1 has 2 rows", events=(90, 105), id=1)],
            "V13": [Anomaly(kind="zombie-effect", say=say, events=(100, 105))],
        },
        name="zombie",
    )


def lost(folder: Path) -> RunOutcome:
    """The third history: the offset was saved before the rows."""
    events = [_with_rows(e, 1) for e in _DOUBLED if e["n"] not in {40, 90, 130, 140}]
    say = "record 1 has no row in the table although the job is done"
    return job_outcome(
        folder, events, anomalies={"V8": [Anomaly(kind="lost", say=say, events=(20, 120), id=1)]}, name="lost"
    )


def swept(folder: Path, *, points: int = 40, bad: Sequence[int] = (7, 8, 19)) -> list[RunOutcome]:
    """A sweep: one run for each message, before and after it; those of `bad` double a record."""
    made = []
    for n in range(1, points + 1):
        for moment in ("before", "after"):
            fault = {
                "id": "kill",
                "do": "kill_at_message",
                "when": {"sink": "message", "nth": n, "moment": moment},
            }
            plan = {"job_scenario": "sweep", "faults": [fault]}
            is_bad = n in bad and moment == "after"
            anomalies = (
                {"V8": [Anomaly(kind="duplicate", say="twice", events=(40, 90), id=1)]} if is_bad else {}
            )
            held = {"pid": 712, "held": f"{moment} INSERT enriched (message {n})"}
            times = (FaultTime(armed_us=55, measured_us=60, healed_us=61, evidence=held),)
            made.append(
                job_outcome(
                    folder,
                    _DOUBLED if is_bad else [_with_rows(e, 2) for e in _DOUBLED if e["n"] not in {40, 130}],
                    anomalies=anomalies,
                    faults=[FaultRecord(id="kill", kind="kill_at_message", plan=fault, times=times)],
                    name=f"sweep-{n}-{moment}",
                    plan=plan,
                )
            )
    return made


def _with_rows(event: Event, rows: int) -> Event:
    return {**event, "rows": rows} if event["k"] == "read" else event


def killed_twice(folder: Path, *, records: int = 200) -> RunOutcome:
    """Two kills in a stream of batches of ten: the second successor writes its predecessor's batch again."""
    events: list[Event] = [{"t": 0, "k": "start", "start": 1}]
    for record in range(records):
        offer = {
            "part": 0,
            "pos": record,
            "id": record,
            "key": record % 40,
            "expect": [[f"name {record % 40}"]],
        }
        events.append({"t": 100_000 + record * 9_000, "k": "offer", **offer})
    at_us, start, tx = 900_000, 1, 100
    for first in range(0, records, 10):
        if first in {60, 140}:
            name, again = f"kill-{start}", first == 140
            if again:
                events += _batch(first, at_us=at_us, tx=tx, start=start)
            events.append({"t": at_us + 10_000, "k": "fault", "f": name, "phase": "begin"})
            events.append({"t": at_us + 12_000, "k": "exit", "start": start, "signal": 9, "by": name})
            told = {"pid": 700 + start, "held": "answer of COMMIT" if again else "INSERT"}
            events.append({"t": at_us + 13_000, "k": "fault", "f": name, "phase": "end", "evidence": told})
            start, tx, at_us = start + 1, tx + 1, at_us + 700_000
            events.append({"t": at_us - 600_000, "k": "start", "start": start})
        events += _batch(first, at_us=at_us, tx=tx, start=start)
        tx, at_us = tx + 1, at_us + 100_000
    events += [
        {"t": at_us, "k": "exit", "start": start, "code": 0},
        {"t": at_us + 900, "k": "finished", "how": "exit"},
    ]
    rows = records + 10
    events += [
        {"t": at_us + 9_000, "k": "read", "reading": 1, "of": of, "rows": rows} for of in ("table", "log")
    ]
    events.sort(key=lambda event: event["t"])
    numbered = [{"n": n, **event} for n, event in enumerate(events, start=1)]
    return job_outcome(
        folder,
        numbered,
        anomalies={"V8": [_double_of(numbered, record) for record in range(140, 150)]},
        faults=(),
        name="killed-twice",
    )


def _batch(first: int, *, at_us: int, tx: int, start: int) -> list[Event]:
    return [
        {
            "t": at_us,
            "k": "row",
            "op": "insert",
            "tx": tx,
            "start": start,
            "id": record,
            "v": [f"name {record % 40}"],
            **({"last": True} if record == first + 9 else {}),
        }
        for record in range(first, first + 10)
    ]


def _double_of(events: Sequence[Event], record: int) -> Anomaly:
    cited = tuple(e["n"] for e in events if e["k"] == "row" and e["id"] == record)
    return Anomaly(
        kind="duplicate", say=f"record {record} has 2 rows; 1 is expected", events=cited, id=record
    )
