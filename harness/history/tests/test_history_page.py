"""The page of the format tells the truth: its histories get the verdicts it states, its tables are the code's."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from harness.history import header
from harness.history.event import AttemptEvent
from harness.history.event_fields import ALL_CLAIMS, kinds_of
from harness.history.invariants import INVARIANTS
from harness.history.read import open_text
from harness.history.verdict import Judgement
from harness.judge.checkers.judge import Malformed, judge_reader
from harness.judge.checkers.registry import CHECKERS
from tools.cases import each

KINDS = kinds_of(ALL_CLAIMS)
PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "history.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```json\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
EXAMPLES = [block for block in BLOCKS if len(block.splitlines()) > 2 and block.startswith('{"history":1')]
STATED = re.findall(r"\*\*Verdict:\s(\w+)(.*?)\.\*\*", PAGE, re.DOTALL)
EVERYWHERE = {"n", "t", "k", "thread", "mail"}


def judged(text: str) -> Judgement:
    found = judge_reader(open_text(text.encode()))
    assert not isinstance(found, Malformed), found.breaches
    return found


def convictions(judgement: Judgement) -> set[tuple[str, str]]:
    return {(v.invariant, anomaly.kind) for v in judgement.convicted() for anomaly in v.anomalies}


def rows(section: str) -> Iterator[Sequence[str]]:
    """The cells of the tables below a heading, up to the next one."""
    body = re.split(rf"^## {section}$", PAGE, flags=re.MULTILINE)[1].split("\n## ")[0]
    for line in body.splitlines():
        if line.startswith("| `"):
            yield [cell.strip() for cell in line.strip("|").split(" | ")]


def test_the_page_shows_four_histories_and_states_a_verdict_on_each() -> None:
    assert len(EXAMPLES) == len(STATED) == 4


@pytest.mark.parametrize(("text", "stated"), list(zip(EXAMPLES, STATED, strict=True)))
def test_a_history_of_the_page_gets_the_verdict_that_the_page_states(
    text: str, stated: tuple[str, str]
) -> None:
    verdict, why = stated
    named = set(re.findall(r"(V\d+) `([\w-]+)`", why))

    found = judged(text)

    assert (str(found.outcome), convictions(found)) == (verdict, named)


def test_what_is_visible_twice_with_append_is_visible_once_with_rollback() -> None:
    assert str(judged(EXAMPLES[1].replace('"append"', '"rollback"')).outcome) == "pass"


def test_the_row_that_is_gone_passes_if_it_is_there() -> None:
    *above, last = EXAMPLES[3].splitlines()
    (row,) = re.findall(r'`(\{"n":12,.*?"Oslo"\})`', PAGE)
    read = last.replace('"n":12', '"n":13').replace('"rows":0', '"rows":1')

    assert str(judged("\n".join([*above, row, read]) + "\n").outcome) == "pass"


def test_a_table_that_was_not_read_leaves_its_invariants_open_trust1() -> None:
    unread = judged("".join(line + "\n" for line in EXAMPLES[3].splitlines()[:-1]))

    assert {str(v.outcome) for v in unread.invariants if v.invariant in {"V8", "V9"}} == {"unknown"}


def test_a_kill_without_a_cause_is_unexplained_trust2() -> None:
    unasked = judged(EXAMPLES[3].replace(',"by":"outside"', ""))

    assert ("V24", "unexplained-failure") in convictions(unasked)


def test_the_printed_document_is_that_of_the_second_history() -> None:
    (printed,) = [block for block in BLOCKS if block.startswith('{"verdict": "fail"')]

    assert without_sentences(json.loads(printed)) == without_sentences(judged(EXAMPLES[1]).as_json())


def without_sentences(document: Any) -> Any:
    if isinstance(document, dict):
        return {name: without_sentences(v) for name, v in document.items() if name not in {"say", "why"}}
    return [without_sentences(v) for v in document] if isinstance(document, list) else document


def test_the_malformed_document_has_the_fields_that_are_printed() -> None:
    (printed,) = [block for block in BLOCKS if block.startswith('{"verdict": "malformed"')]
    found = judge_reader(open_text(b"{}\n"))

    assert isinstance(found, Malformed)
    assert json.loads(printed).keys() == found.as_json().keys()


def test_the_header_s_tables_name_the_header_s_fields() -> None:
    cells = [name for name, *_ in rows("Header")]
    sinks = {"`rollback`", "`append`", "`atomic`", "`two-phase`"}

    told = {cell.strip("`") for cell in cells if cell not in sinks}

    kinds = (header.Header, header.OperatorHeader, header.Retry, header.Table)
    assert told == {part.name for kind in kinds for part in fields(kind)}


@pytest.mark.parametrize("kind", [header.Bounds, header.Expects])
def test_the_header_s_smaller_parts_are_told_too(kind: type[header.Bounds | header.Expects]) -> None:
    (told,) = re.findall(rf"^`{kind.__name__.lower()}`, .*?\n\n", PAGE, re.MULTILINE | re.DOTALL)

    assert {part.name for part in fields(kind)} <= set(re.findall(r"`(\w+)`", told))


@each("kind", KINDS.fields)
def test_the_tables_name_a_kind_s_fields_and_which_may_be_absent(kind: str) -> None:
    told = " ".join(cells[1] for cells in rows("Events") if cells[0] == f"`{kind}`")
    row = KINDS.fields[kind]
    elsewhere = EVERYWHERE | ({"s", "a"} if issubclass(KINDS.make[kind], AttemptEvent) else set())
    optional = {name for name, field in row.items() if not field.required} - elsewhere
    if kind == "fault":
        told = told.replace("`evidence`", "")

    names = re.findall(r"`(\w+)`", told)

    assert set(names) == set(row) - elsewhere
    assert set(re.findall(r"\*`(\w+)`\*", told)) == optional


def test_the_page_tells_each_invariant() -> None:
    told = re.findall(r"^\*\*(V\d+) ", PAGE, re.MULTILINE)

    assert told == [checker.name for checker in CHECKERS] == list(INVARIANTS)


def test_every_class_that_a_checker_gives_is_on_the_page() -> None:
    """But for those of V22, which are found in the history of a probe."""
    folder = Path(__file__).parents[2] / "judge" / "checkers"
    sources = "".join(
        path.read_text(encoding="utf-8")
        for path in sorted(folder.glob("*.py"))
        if path.name != "substrate.py"
    )
    given = set(re.findall(r'(?:kind=|anomaly\(|convict(?:_of)?\(|_tell\(|_told\()\s*"([a-z-]+)"', sources))

    assert given == set(re.findall(r"^- `([a-z-]+)`: ", PAGE, re.MULTILINE))
