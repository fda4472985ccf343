"""`floodmark check` of histories seen from outside: the same forms, options and exit codes as for operators."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from harness.cli.check import check
from harness.judge.canaries.canary import canaries
from harness.system.errors import Exit
from harness.testing.running import check as check_from_python

LINES = {canary.name: canary.path.read_text() for canary in canaries("jobs")}
FORMS = ("pretty", "json", "markdown", "github")


def checked(*words: str, given: str = "") -> Result:
    return CliRunner().invoke(check, words, input=given)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name, stem in (("V8 duplicate", "doubled"), ("honest job", "honest"), ("V8 not finished", "open")):
        (tmp_path / f"{stem}.jsonl").write_text(LINES[name])
    return tmp_path


def document(*words: str, given: str = "") -> Any:
    return json.loads(checked(*words, "--format", "json", given=given).stdout)


@pytest.mark.parametrize(
    ("file", "code"), [("doubled", Exit.VIOLATION), ("honest", Exit.HOLD), ("open", Exit.UNDECIDED)]
)
def test_the_exit_code_is_that_of_the_verdict(file: str, code: Exit) -> None:
    assert checked(f"{file}.jsonl").exit_code == code


@pytest.mark.parametrize("form", FORMS)
def test_each_form_tells_the_class_its_reason_and_what_is_not_claimed(form: str) -> None:
    told = checked("doubled.jsonl", "--format", form).stdout

    assert "duplicate" in told
    assert "a contradiction." in told
    assert "outside" in told


def test_the_document_names_the_view_and_all_invariants_in_order() -> None:
    found = document("doubled.jsonl")

    assert (found["verdict"], found["view"]) == ("fail", "outside")
    names = [verdict["invariant"] for verdict in found["invariants"]]
    assert names == [f"V{n}" for n in range(1, 25) if n not in (17, 22)]
    (anomaly,) = next(v for v in found["invariants"] if v["invariant"] == "V8")["anomalies"]
    assert (anomaly["class"], anomaly["id"]) == ("duplicate", 1)
    assert not {"s", "j", "tx", "start"} & anomaly.keys()


def test_a_zombie_is_named_by_transaction_and_start() -> None:
    found = document("-", given=LINES["V13 zombie-effect"])

    (anomaly,) = next(v for v in found["invariants"] if v["invariant"] == "V13")["anomalies"]
    assert (anomaly["class"], anomaly["tx"], anomaly["start"]) == ("zombie-effect", 2, 1)
    assert "id" not in anomaly


def test_a_null_id_is_named_as_null(folder: Path) -> None:
    text = LINES["V8 phantom"].replace('"id":2', '"id":null')
    (folder / "null.jsonl").write_text(text)

    (anomaly,) = next(v for v in document("null.jsonl")["invariants"] if v["invariant"] == "V8")["anomalies"]

    assert (anomaly["class"], anomaly["id"]) == ("phantom", None)
    assert "id" in anomaly


def test_a_malformed_file_has_the_view_if_its_header_tells_it() -> None:
    lines = LINES["V8 duplicate"].splitlines(keepends=True)
    event = document("-", given="".join(lines[:2]) + "{}\n")
    header = document("-", given=lines[0].replace('"claims"', '"operator"'))
    inside = document("-", given="{}\n")

    assert (event["verdict"], event["view"]) == ("malformed", "outside")
    assert [breach["line"] for breach in event["breaches"]] == [3, 3, 3]
    assert (header["verdict"], header["view"]) == ("malformed", "outside")
    assert "view" not in inside
    assert checked("-", given="".join(lines[:2]) + "{}\n").exit_code == Exit.USAGE


def test_chosen_invariants_alone_are_judged() -> None:
    found = document("doubled.jsonl", "--invariant", "V13", "--invariant", "V16")

    assert [verdict["invariant"] for verdict in found["invariants"]] == ["V13", "V16"]


def test_both_views_are_checked_together_and_the_worst_decides(folder: Path) -> None:
    (folder / "operator.jsonl").write_text("{}\n")

    result = checked("honest.jsonl", "operator.jsonl", "doubled.jsonl")

    assert result.exit_code == Exit.VIOLATION
    assert [line.split()[0] for line in result.stdout.splitlines() if not line.startswith(" ")] == [
        "PASS", "MALFORMED", "FAIL",
    ]  # fmt: skip


def test_a_warning_says_why_a_finish_does_not_count() -> None:
    told = checked("-", given=LINES["V16 not finished"]).stdout

    assert 'warning: `finished` by "exit" (event 4) is not borne out, because start 1 had not exited' in told


def test_a_last_line_that_was_cut_off_is_left_out_with_a_warning() -> None:
    found = document("-", given=LINES["honest job"] + '{"n":99,"t"')

    assert found["verdict"] == "pass"
    assert "cut off" in found["warnings"][0]


def test_a_program_can_check_it_too(folder: Path) -> None:
    verdict = check_from_python(folder / "doubled.jsonl")

    assert verdict.violated == ("V8",)
    assert "Seen from outside" in verdict.explanation
