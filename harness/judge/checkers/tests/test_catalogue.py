"""The catalogue: one small history for each class of each invariant, and odd but legal ones beside it.

A file's name is its claim; what it must be judged stands in `run` of its header: the overall verdict, exactly
which invariants convict with exactly which classes, outcomes worth naming, and `near`: the classes that an
acquitted one comes close to.
"""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

from harness.history.verdict import Judgement, Outcome
from harness.judge.checkers.judge import judge_file
from harness.judge.checkers.registry import CHECKERS
from tools.cases import each

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "history.md"
CATALOGUE = Path(__file__).parent / "catalogue"
FILES = sorted(CATALOGUE.rglob("*.jsonl"))
EACH_FOLDER = each("folder", sorted({path.parent for path in FILES}), ids=lambda path: path.name)

CLASSES = {
    "V1": {"reordered"},
    "V2": {"overtook-watermark"},
    "V3": {"key-reordered"},
    "V4": {"watermark-back"},
    "V5": {"crossed"},
    "V6": {"watermark-lost", "held"},
    "V7": {"phantom-watermark", "repeated-watermark", "after-end"},
    "V8": {
        "phantom", "duplicate", "wrong-value", "lost", "row-missing", "row-doubled", "row-foreign",
        "row-altered", "row-disordered", "inconsistent", "stale", "future",
    },
    "V9": {
        "double-effect", "phantom-effect", "wrong-effect", "no-effect", "row-missing", "row-deleted",
        "row-doubled", "row-foreign", "row-altered",
    },
    "V10": {
        "missing", "already-out", "torn", "both-sides", "foreign", "twice", "misordered", "skipped",
        "incomplete", "two-ends", "stale-ack",
    },
    "V11": {
        "bad-restore", "restore-differs", "wrong-position", "left-behind", "restored-twice", "not-stored",
        "shared-partition",
    },
    "V12": {"committed-twice", "commit-order", "unknown-epoch", "early-commit", "never-committed"},
    "V13": {"zombie-effect", "zombie-commit"},
    "V14": {"over-capacity", "over-admitted"},
    "V15": {
        "two-outcomes", "call-after-final", "concurrent-call", "tries", "early-timeout", "late-timeout",
        "out-before-outcome", "unknown-record", "unknown-call", "retry-missing", "retry-early", "retry-late",
        "gave-up-early", "retried-anyway",
    },
    "V16": {"stuck"},
    "V18": {"checkpoint-gap"},
    "V19": {"foreign-response", "nonce-reused"},
    "V20": {"swallowed", "double-routed", "row-missing", "row-doubled", "row-foreign", "row-altered"},
    "V21": {"foreign-thread", "outside-life", "interleaved"},
    "V23": set(),
    "V24": {"unexplained-failure"},
}  # fmt: skip
"""Of the page's table; V23 never fails."""


def claimed(path: Path) -> dict[str, Any]:
    claim: dict[str, Any] = json.loads(path.read_text().splitlines()[0])["run"]
    return claim


@cache
def judged(path: Path) -> Judgement:
    judgement = judge_file(path)
    assert isinstance(judgement, Judgement), judgement
    return judgement


@each("path", FILES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_the_history_is_judged_as_its_name_claims(path: Path) -> None:
    claim = claimed(path)

    judgement = judged(path)

    convicts = {
        verdict.invariant: sorted({anomaly.kind for anomaly in verdict.anomalies})
        for verdict in judgement.convicted()
    }
    outcomes = {verdict.invariant: str(verdict.outcome) for verdict in judgement.invariants}
    assert convicts == claim["convicts"]
    assert claim.get("outcomes", {}).items() <= outcomes.items()
    assert judgement.outcome == claim["verdict"]
    assert "unknown" not in outcomes.values() or "unknown" in claim["outcomes"].values()


@EACH_FOLDER
def test_an_anomaly_names_events_that_exist_and_says_why(folder: Path) -> None:
    anomalies = [
        (path.stem, anomaly, {json.loads(line)["n"] for line in path.read_text().splitlines()[1:]})
        for path in sorted(folder.glob("*.jsonl"))
        for verdict in judged(path).invariants
        for anomaly in verdict.anomalies
    ]

    assert [name for name, anomaly, numbers in anomalies if not numbers.issuperset(anomaly.events)] == []
    assert [name for name, anomaly, _ in anomalies if not (anomaly.events and anomaly.say)] == []


def test_every_class_of_every_judged_invariant_is_convicted_somewhere() -> None:
    shown = {name: set(kinds) for name, kinds in CLASSES.items() if kinds}
    for path in FILES:
        for name, kinds in claimed(path)["convicts"].items():
            shown[name] -= set(kinds)

    assert not {name: kinds for name, kinds in shown.items() if kinds}
    assert set(CLASSES) == {checker.name for checker in CHECKERS}


def test_the_classes_are_those_of_the_page() -> None:
    told: dict[str, set[str]] = {}
    name = ""
    for line in PAGE.read_text().splitlines():
        if heading := re.match(r"\*\*(V\d+) ", line):
            name = heading[1]
            told[name] = set()
        elif name and (kind := re.match(r"- `([a-z-]+)`:", line)):
            told[name].add(kind[1])
        elif line.startswith("## "):
            name = ""

    assert told == CLASSES


NEAR = [(name, kind) for name, kinds in CLASSES.items() for kind in sorted(kinds)]


@each(("name", "kind"), NEAR)
def test_every_class_has_something_odd_near_it_that_is_legal(name: str, kind: str) -> None:
    near = [path for path in (CATALOGUE / name).glob("*.jsonl") if kind in claimed(path).get("near", [])]

    assert near
    for path in near:
        outcome = next(v.outcome for v in judged(path).invariants if v.invariant == name)
        assert outcome is Outcome.PASS, path
        assert not claimed(path)["convicts"], path


def test_what_a_history_is_near_to_is_a_class_of_its_invariant() -> None:
    near = {path: set(claimed(path).get("near", [])) for path in FILES}

    assert [path for path, kinds in near.items() if kinds - CLASSES.get(path.parent.name, set())] == []


def test_a_history_that_passes_its_invariant_of_evidence_shows_some() -> None:
    passing = [
        path for path in (CATALOGUE / "V23").glob("passes*.jsonl") if claimed(path)["verdict"] == "pass"
    ]

    outcomes = [v.outcome for path in passing for v in judged(path).invariants if v.invariant == "V23"]

    assert outcomes
    assert set(outcomes) == {Outcome.PASS}
