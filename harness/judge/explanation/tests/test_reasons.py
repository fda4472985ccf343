"""Every class of anomaly is explained by events that exist, in sentences that are so, with the contradiction last."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from harness.history.read import open_history
from harness.history.verdict import Anomaly, Explanation, Judgement
from harness.judge.checkers.judge import judge_reader
from harness.judge.checkers.tests.blind_mutations import mutated
from harness.judge.checkers.tests.legal_histories import legal_history
from harness.judge.explanation.explain import explained_file
from harness.judge.explanation.tests.truths import CLAIMS, untruths
from harness.system.choices import Choices
from tools.cases import each

ROOT = Path(__file__).parents[4]
CATALOGUE = ROOT / "harness/judge/checkers/tests/catalogue"
"""Small histories that convict each class; what each is convicted of stands in `run` of its header."""
FORMAT = (ROOT / "docs/reference/history.md").read_text()
CLASSES = sorted(set(re.findall(r"^- `([a-z-]+)`: ", FORMAT, re.MULTILINE)))

Told = list[tuple[Anomaly, Explanation]]


def convicts(path: Path) -> set[str]:
    """The classes that a history of the catalogue says it shows."""
    kinds: dict[str, list[str]] = json.loads(path.read_text().splitlines()[0])["run"]["convicts"]
    return {kind for named in kinds.values() for kind in named}


CONVICTING = [path for path in sorted(CATALOGUE.rglob("*.jsonl")) if convicts(path)]


def explained(path: Path) -> Told:
    """Each anomaly of a well-formed file with its explanation, of as many as have one; nothing of another file."""
    judgement = judge_reader(open_history(path))
    if not isinstance(judgement, Judgement):
        return []
    found = [one for verdict in explained_file(judgement, path).convicted() for one in verdict.anomalies]
    return [(anomaly, anomaly.explanation) for anomaly in found if anomaly.explanation is not None]


told = cache(explained)
"""Of the catalogue's files, which do not change."""


def events_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()[1:]]


@pytest.mark.sweep
@each("path", CONVICTING, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_every_sentence_is_so_and_the_last_is_the_contradiction(path: Path) -> None:
    events = events_of(path)

    found = told(path)

    assert found
    for anomaly, explanation in found:
        assert untruths(anomaly, explanation, events) == []


@pytest.mark.sweep
@each("kind", CLASSES)
def test_the_checker_of_every_class_gives_its_facts_and_its_rule(kind: str) -> None:
    showing = [path for path in CONVICTING if kind in convicts(path)]

    found = [one for path in showing for one in told(path) if one[0].kind == kind]

    assert found
    assert all(anomaly.rule and len(explanation.then) > 1 for anomaly, explanation in found)


@each("seed", range(24))
def test_what_is_said_of_a_random_breach_is_so_too(seed: int, tmp_path: Path) -> None:
    lines = mutated(legal_history(seed), Choices(seed, "explanations"))
    path = tmp_path / "history.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)) + "\n")

    for anomaly, explanation in explained(path):
        assert untruths(anomaly, explanation, lines[1:]) == [], anomaly


@pytest.mark.sweep
def test_every_form_of_sentence_that_is_checked_occurs() -> None:
    sentences = [line for path in CONVICTING for _, explanation in told(path) for line in explanation.then]

    assert [pattern.pattern for pattern, _ in CLAIMS if not any(map(pattern.search, sentences))] == []


@pytest.mark.parametrize(
    "line",
    [
        "e2 comes before e1.",
        "e9 comes before e1.",
        "No output of it ever left.",
        "The run finished normally: e1.",
    ],
)
def test_a_sentence_that_is_not_so_is_found_out(line: str) -> None:
    path = CATALOGUE / "V8/duplicate_inside_an_attempt.jsonl"
    ((anomaly, explanation),) = told(path)
    events = [event for event in events_of(path) if event["k"] != "ended"]

    wrong = Explanation(let=explanation.let, then=(line, explanation.then[-1]))

    assert len(untruths(anomaly, wrong, events)) == 1
