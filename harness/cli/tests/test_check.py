"""`floodmark check`: its formats (`docs/reference/history.md`) and exit codes (`docs/reference/command-line.md`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from harness.cli.check import check
from harness.cli.main import main
from harness.judge.checkers.tests.blind_mutations import mutated
from harness.judge.checkers.tests.legal_histories import legal_history
from harness.system.choices import Choices
from harness.system.errors import UsageError
from tools.cases import each

START = {"n": 1, "t": 0, "k": "start", "s": 0, "a": 1, "from": None, "pos": 0}
OVER = [{"n": n, "t": n, "k": k, "s": 0, "a": 1} for n, k in ((2, "end"), (3, "ended"))]
GHOST = {"n": 2, "t": 0, "k": "out", "s": 0, "a": 1, "id": "<b>|x\n::error::", "j": 0, "v": 1}
HEADER = {"history": 1, "operator": {"mode": "ordered", "capacity": 2, "timeout_ms": 0}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    histories: dict[str, list[Any]] = {
        "pass": legal_history(1, calm=True, plain=True, sink="rollback"),
        "fail": [HEADER, START, GHOST],
        "vacuous": [HEADER, START, *OVER],
        "malformed": [HEADER, START, {"k": "nothing"}],
    }
    for name, lines in histories.items():
        (tmp_path / f"{name}.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    return tmp_path


def checked(folder: Path, *names: str, form: str = "json") -> Result:
    paths = [str(folder / f"{name}.jsonl") for name in names]
    return CliRunner().invoke(check, [*paths, "--format", form])


@pytest.mark.parametrize(("name", "code"), [("pass", 0), ("fail", 1), ("vacuous", 10), ("malformed", 4)])
def test_the_exit_code_tells_the_verdict(folder: Path, name: str, code: int) -> None:
    result = checked(folder, name)

    assert result.exit_code == code
    assert json.loads(result.stdout)["verdict"] == name


@pytest.mark.parametrize("form", ["pretty", "json", "markdown", "github"])
def test_an_id_of_thousands_of_digits_is_convicted_like_any_other(tmp_path: Path, form: str) -> None:
    lines = "\n".join(json.dumps(line) for line in (HEADER, START, {**GHOST, "id": 0}))
    (tmp_path / "long.jsonl").write_text(lines.replace('"id": 0', f'"id": 1{"0" * 5000}') + "\n")

    result = checked(tmp_path, "long", form=form)

    assert result.exit_code == 1
    assert "phantom" in result.stdout


@pytest.mark.parametrize(
    ("names", "code"),
    [
        (["pass", "pass"], 0),
        (["pass", "vacuous"], 10),
        (["vacuous", "malformed"], 4),
        (["malformed", "fail", "vacuous", "pass"], 1),
    ],
)
def test_the_worst_of_several_files_wins_one_document_a_line_in_order(
    folder: Path, names: list[str], code: int
) -> None:
    result = checked(folder, *names)

    assert result.exit_code == code
    assert [json.loads(line)["verdict"] for line in result.stdout.splitlines()] == names


def test_json_has_the_shape_of_the_page(folder: Path) -> None:
    document = json.loads(checked(folder, "fail").stdout)

    v8 = next(verdict for verdict in document["invariants"] if verdict["invariant"] == "V8")
    assert list(document)[:3] == ["verdict", "invariants", "warnings"]
    assert list(v8)[:4] == ["invariant", "verdict", "anomalies", "omitted"]
    assert v8["verdict"] == "fail"
    assert v8["omitted"] == 0
    assert set(v8["anomalies"][0]) == {"class", "s", "id", "events", "say", "explanation"}


def test_json_of_a_malformed_file_lists_the_breaches(folder: Path) -> None:
    document = json.loads(checked(folder, "malformed").stdout)

    assert {breach["line"] for breach in document["breaches"]} == {3}
    assert document["invariants"] == []


@pytest.mark.parametrize("form", ["pretty", "markdown", "github"])
def test_text_names_verdict_invariant_class_and_events(folder: Path, form: str) -> None:
    text = checked(folder, "fail", form=form).stdout

    assert "FAIL" in text
    assert "V8" in text
    assert "phantom" in text
    assert "event 2" in text


@each("seed", range(8))
def test_whatever_is_found_is_told_in_every_format_without_a_control_character(
    tmp_path: Path, seed: int
) -> None:
    lines = mutated(legal_history(seed), Choices(seed, "a broken history"), most=8)
    (tmp_path / "broken.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")

    told = {form: checked(tmp_path, "broken", form=form) for form in ("json", "pretty", "markdown", "github")}
    document = json.loads(told["json"].stdout)

    assert len({result.exit_code for result in told.values()}) == 1
    assert document["verdict"] in {"pass", "fail", "unknown", "vacuous", "malformed"}
    for form, result in told.items():
        assert document["verdict"].upper() in result.stdout.upper(), form
        assert all(line.isprintable() for line in result.stdout.split("\n")), form


def test_a_hostile_payload_stays_a_payload(folder: Path) -> None:
    markdown = checked(folder, "fail", form="markdown").stdout
    github = checked(folder, "fail", form="github").stdout

    table = [line for line in markdown.splitlines() if line.startswith("|")]
    assert not any("<b>" in line for line in table)
    assert any("&#60;b&#62;&#124;x" in line for line in table)
    assert not any(line.startswith("::error::") for line in github.splitlines())


def test_pretty_lists_the_breaches_with_their_lines(folder: Path) -> None:
    assert "line 3: unknown kind" in checked(folder, "malformed", form="pretty").stdout


def test_files_that_cannot_be_read_are_told_all_at_once_and_nothing_is_judged(folder: Path) -> None:
    result = CliRunner().invoke(check, [str(folder / "pass.jsonl"), str(folder / "gone.jsonl"), str(folder)])

    assert isinstance(result.exception, UsageError)
    assert "gone.jsonl" in str(result.exception)
    assert "directory" in str(result.exception)
    assert result.stdout == ""


def test_the_command_answers_with_4_where_a_file_is_missing(folder: Path) -> None:
    assert main(["check", str(folder / "gone.jsonl")]) == 4


def test_the_command_hands_the_verdict_through(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", str(folder / "fail.jsonl"), "--format", "json"]) == 1
    assert json.loads(capsys.readouterr().out)["verdict"] == "fail"
