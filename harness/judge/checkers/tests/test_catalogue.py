"""The catalogue: one small history for each class of each invariant, and odd but legal ones beside it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.history.verdict import Outcome
from harness.judge.checkers.registry import CHECKERS
from harness.judge.checkers.tests.judged_files import CATALOGUE, FILES, FOLDERS, claimed, differences, judged

PAGE = Path(__file__).parents[4] / "docs" / "reference" / "history.md"

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
        "incomplete", "two-ends", "stale-ack", "altered",
    },
    "V11": {
        "bad-restore", "restore-differs", "wrong-position", "left-behind", "restored-twice", "not-stored",
        "shared-partition", "started-over", "retired-early",
    },
    "V12": {"committed-twice", "commit-order", "unknown-epoch", "early-commit", "never-committed"},
    "V13": {"zombie-effect", "zombie-commit"},
    "V14": {"over-capacity", "over-admitted"},
    "V15": {
        "two-outcomes", "call-after-final", "concurrent-call", "tries", "early-timeout", "late-timeout",
        "out-before-outcome", "unknown-record", "unknown-call", "retry-missing", "retry-early", "retry-late",
        "gave-up-early", "retried-anyway", "call-after-timeout",
    },
    "V16": {"stuck", "unserved"},
    "V18": {"checkpoint-gap", "left-out"},
    "V19": {"foreign-response", "nonce-reused"},
    "V20": {
        "swallowed", "double-routed", "row-missing", "row-doubled", "row-foreign", "row-altered",
        "wrong-substitute", "error-altered", "result-of-error", "misrouted",
    },
    "V21": {"foreign-thread", "outside-life", "interleaved"},
    "V23": set(),
    "V24": {"unexplained-failure"},
}  # fmt: skip
"""Of the page's table; V23 never fails."""


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: "-".join(folder.parts[-3:]))
def test_every_judge_says_of_each_history_what_it_claims(folder: Path) -> None:
    assert [told for path in sorted(folder.glob("*.jsonl")) for told in differences(path)] == []


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


def test_every_class_has_something_odd_near_it_that_is_legal() -> None:
    near: dict[tuple[str, str], list[Path]] = {
        (name, kind): [] for name, kinds in CLASSES.items() for kind in kinds
    }
    for path in FILES:
        for kind in claimed(path).get("near", ()):
            near[path.parent.name, kind].append(path)

    assert [kind for kind, files in near.items() if not files] == []
    for (name, _), files in near.items():
        for path in files:
            outcome = next(v.outcome for v in judged(path).invariants if v.invariant == name)
            assert (outcome, claimed(path)["convicts"]) == (Outcome.PASS, {}), path


def test_a_history_that_passes_its_invariant_of_evidence_shows_some() -> None:
    passing = [
        path for path in (CATALOGUE / "V23").glob("passes*.jsonl") if claimed(path)["verdict"] == "pass"
    ]

    outcomes = [v.outcome for path in passing for v in judged(path).invariants if v.invariant == "V23"]

    assert outcomes
    assert set(outcomes) == {Outcome.PASS}
