"""The page of the format seen from outside tells the truth: its histories get the verdicts it states."""

from __future__ import annotations

import json
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from harness.history import outside
from harness.history.outside_fields import OutsideFields
from harness.history.read import outside_of
from harness.history.verdict import Judgement
from harness.judge.checkers.outside.judge import judge_outside
from tools.cases import each

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "reference" / "history-outside.md").read_text(encoding="utf-8")
(EXAMPLE,) = re.findall(r'^```json\n(\{"history":1.*?)^```', PAGE, re.MULTILINE | re.DOTALL)
(LATE,) = re.findall(r'as `(\{"n":105.*?\})`', PAGE)
Json = dict[str, Any]


def doubled() -> list[Json]:
    return [json.loads(line) for line in EXAMPLE.splitlines()]


def without(*numbers: int) -> list[Json]:
    lines = [line for line in doubled() if line.get("n") not in numbers]
    return [{**line, "rows": 1} if line.get("k") == "read" else line for line in lines]


def moved(event: Json) -> list[Json]:
    header, *events = [line for line in doubled() if line.get("n") != 40]
    return [header, *sorted([*events, event], key=lambda line: int(line["n"]))]


def judged(lines: list[Json]) -> Judgement:
    return judge_outside(*outside_of(lines[0], lines[1:]))


def convictions(judgement: Judgement) -> set[tuple[str, str]]:
    return {(v.invariant, anomaly.kind) for v in judgement.convicted() for anomaly in v.anomalies}


def stated(heading: str) -> set[tuple[str, str]]:
    section = PAGE.split(f"### {heading}\n")[1].split("\n### ")[0]
    (why,) = re.findall(r"\*\*Verdict:\sfail,(.*?)\*\*", section, re.DOTALL)
    return set(re.findall(r"(V\d+)\s`([\w-]+)`", why))


HISTORIES = {
    "A doubled batch": doubled(),
    "A late COMMIT": moved(json.loads(LATE)),
    "A lost window": without(40, 90, 130, 140),
}


@pytest.mark.parametrize("heading", HISTORIES)
def test_a_history_of_the_page_gets_the_verdict_that_the_page_states(heading: str) -> None:
    found = judged(HISTORIES[heading])

    assert convictions(found) == stated(heading) != set()
    assert str(found.outcome) == "fail"


def test_a_commit_before_its_successor_is_no_zombie_s() -> None:
    early = judged(moved({**json.loads(LATE), "n": 85, "t": 80, "tx": 7}))

    assert convictions(early) == {("V8", "duplicate")}


def test_what_is_missing_without_a_finish_is_not_lost_yet() -> None:
    cut = judged(without(40, 90, 110, 120, 130, 140))

    assert {v.invariant for v in cut.invariants if str(v.outcome) == "unknown"} == {"V8", "V16"}


def test_the_page_names_each_field_of_the_header() -> None:
    parts = (
        outside.OutsideHeader,
        outside.OutsideClaims,
        outside.OutsideSink,
        outside.OutsideBounds,
        outside.OutsideExpects,
    )
    section = PAGE.split("\n## Header\n")[1].split("\n## ")[0]

    named = set(re.findall(r"`(\w+)`", section))

    assert {field.name for part in parts for field in fields(part)} <= named


@each("kind", OutsideFields(None).fields)
def test_the_table_names_a_kind_s_fields_and_which_may_be_absent(kind: str) -> None:
    events = PAGE.split("\n## Events\n")[1].split("\n## ")[0]
    (row,) = [line for line in events.splitlines() if line.startswith(f"| `{kind}` | ")]
    told = re.sub(r"\([^()]*\)", "", row.split(" | ")[1])
    kinds = OutsideFields(None).fields[kind]
    elsewhere = {"n", "t", "k"} | ({"evidence", "error", "why"} if kind == "fault" else set())

    named = set(re.findall(r"`(\w+)`", told)) - elsewhere

    assert named == set(kinds) - elsewhere
    optional = {name for name, field in kinds.items() if not field.required} - {"j"} - elsewhere
    assert set(re.findall(r"\*`(\w+)`\*", told)) - elsewhere == optional


def test_every_class_that_a_checker_of_this_view_gives_is_on_the_page() -> None:
    folder = ROOT / "harness" / "judge" / "checkers" / "outside"
    sources = "".join(path.read_text(encoding="utf-8") for path in sorted(folder.glob("*.py")))
    given = set(re.findall(r'(?:kind=|\(\(|yield |found\.setdefault\(\(|replay\.\w+, )"([a-z-]+)"', sources))

    assert given == set(re.findall(r"^- `([a-z-]+)`: ", PAGE, re.MULTILINE))
