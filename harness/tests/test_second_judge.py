"""The second judge is one file of its own, which a stranger can read and run; `check --second` compares both."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from harness.cli.check import check
from harness.history.convert import convert
from harness.history.verdict import Judgement
from harness.judge import second_judge
from harness.judge.checkers import second_opinion
from harness.judge.checkers.judge import judge_file
from harness.judge.checkers.outside.tests.wild_outside import wild_outside
from harness.judge.checkers.tests.legal_histories import legal_history
from harness.judge.checkers.tests.small_histories import text
from harness.judge.second_judge import Finding, Opinion
from tools.cases import each

FILE = Path(second_judge.__file__)
CATALOGUE = Path(__file__).parents[1] / "judge" / "checkers" / "tests" / "catalogue"
LINES_AT_MOST = 2_100


@pytest.fixture
def history(tmp_path: Path) -> Path:
    path = tmp_path / "history.jsonl"
    path.write_bytes(text(legal_history(7)))
    return path


@pytest.fixture(scope="session")
def duplicate() -> Path:
    return next(path for path in sorted((CATALOGUE / "V8").glob("*duplicate*.jsonl")))


def alone(*words: str) -> subprocess.CompletedProcess[str]:
    """The file as a program, with no package of ours to be found."""
    command = [sys.executable, "-I", str(FILE), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)


def checked(*words: str | Path) -> Result:
    return CliRunner().invoke(check, [str(word) for word in words])


def test_it_is_one_file_small_enough_to_read() -> None:
    assert len(FILE.read_text().splitlines()) <= LINES_AT_MOST


def test_it_imports_nothing_but_the_standard_library() -> None:
    imported = [
        node
        for node in ast.walk(ast.parse(FILE.read_text()))
        if isinstance(node, ast.Import | ast.ImportFrom)
    ]
    names = {
        name.split(".")[0]
        for node in imported
        for name in (
            [node.module or "."] if isinstance(node, ast.ImportFrom) else [a.name for a in node.names]
        )
    }

    assert names <= {*sys.stdlib_module_names, "__future__"}
    assert not any(isinstance(node, ast.ImportFrom) and node.level for node in imported)


def test_a_stranger_judges_a_file_with_this_file_alone(history: Path, duplicate: Path) -> None:
    sound, broken = alone(str(history)), alone(str(duplicate))

    assert (sound.returncode, sound.stdout.split()[0]) == (0, "PASS")
    assert (broken.returncode, broken.stdout.split()[0]) == (1, "FAIL")
    assert "duplicate: subtask 0, of " in broken.stdout


@each(
    ("content", "told"),
    [
        ("", "line 1: there is no header"),
        ("not json\n", "line 1: "),
        ('{"history": 1}\n', "line 1: a header has"),
        ('{"history":1,"operator":{"mode":"ordered"}}\n', "line 1: the operator lacks capacity, timeout_ms"),
        ('HEADER{"n":1,"t":0,"k":"moon"}\n', "line 2: unknown kind 'moon'"),
        ('HEADER{"n":1,"t":0,"k":"start","s":0}\n', "line 2: a start lacks a, from, pos"),
        ('HEADER{"n":1,"t":0,"k":"done","c":"x"}\n', "line 2: ill-typed: c"),
        ('HEADER{"n":1,"t":0,"k":"done","c":1,"c":1}\n', "line 2: a key stands twice"),
        ('HEADER{"n":1,"t":0,"k":"end","s":0,"a":1}\n', "a rule between events is broken"),
    ],
)
def test_rubbish_is_told_with_its_line_and_code_4(
    content: str, told: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    header = '{"history":1,"operator":{"mode":"ordered","capacity":1,"timeout_ms":0}}\n'
    path = tmp_path / "rubbish.jsonl"
    path.write_text(content.replace("HEADER", header))

    code = second_judge.main([str(path)])

    assert (code, told in capsys.readouterr().err) == (4, True)


def test_a_last_line_that_was_cut_off_is_left_out(history: Path) -> None:
    whole = second_judge.read_lines(history)
    with history.open("ab") as file:
        file.write(b'\n{"n":99999,"t"')

    assert second_judge.read_lines(history) == whole


@pytest.mark.parametrize("suffix", [".jsonl.gz", ".jsonl.zst", ".arrow", ".parquet"])
def test_both_judges_are_asked_about_each_form(suffix: str, history: Path) -> None:
    other = history.with_name(f"other{suffix}")
    convert(history, other)

    result = checked(other, "--second")

    assert result.exit_code == 0
    assert "second judge: PASS, and it agrees on all 22 invariants" in result.stdout


def test_a_violation_that_both_see_has_the_exit_code_of_a_violation(duplicate: Path) -> None:
    result = checked(duplicate, "--second", "--format", "json")

    assert result.exit_code == 1
    assert json.loads(result.stdout)["second"] == {"verdict": "fail", "agrees": True, "differs": []}


@pytest.mark.parametrize("form", ["pretty", "markdown", "github", "json"])
def test_judges_that_disagree_end_with_code_3_and_the_invariant(
    form: str, history: Path, duplicate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def blind(lines: list[dict[str, Any]]) -> dict[str, Opinion]:
        return second_judge.opinions(lines) | {"V8": Opinion("pass")}

    monkeypatch.setattr(second_opinion, "opinions", blind)

    result = checked(history, duplicate, "--second", "--format", form)

    assert result.exit_code == 3
    assert "V8: the checkers say fail (duplicate" in result.stdout
    assert "second judge says pass" in result.stdout


def test_an_anomaly_that_only_one_judge_tells_is_a_disagreement(
    duplicate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def talkative(lines: list[dict[str, Any]]) -> dict[str, Opinion]:
        given = second_judge.opinions(lines)
        more = (*given["V8"].findings, Finding("lost", 0, "nobody", None, None))
        return given | {"V8": given["V8"]._replace(findings=more)}

    monkeypatch.setattr(second_opinion, "opinions", talkative)

    result = checked(duplicate, "--second")

    assert result.exit_code == 3
    assert "only the second judge tells lost, subtask 0, of 'nobody'" in result.stdout


def test_other_witnesses_are_a_disagreement(duplicate: Path) -> None:
    lines = second_judge.read_lines(duplicate)
    judged = judge_file(duplicate)
    assert isinstance(judged, Judgement)
    moved = {
        name: opinion._replace(findings=tuple(found._replace(at=10**6) for found in opinion.findings))
        for name, opinion in second_judge.opinions(lines).items()
    }

    differs = second_opinion.compared(judged, lines, moved).differs

    assert [told for told in differs if told.startswith("V8: the witnesses differ")]


def test_what_the_second_judge_cannot_read_is_a_disagreement(
    history: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(path: Path) -> Any:
        raise ValueError("line 2: unknown kind 'in'")

    monkeypatch.setattr(second_opinion, "read_lines", refuse)

    result = checked(history, "--second")

    assert result.exit_code == 3
    assert "the second judge cannot read it" in result.stdout


def test_only_chosen_invariants_are_compared(history: Path) -> None:
    result = checked(history, "--second", "--invariant", "V1,V8")

    assert "second judge: PASS, and it agrees on all 2 invariants" in result.stdout


def test_a_malformed_file_is_not_handed_on(history: Path) -> None:
    history.write_bytes(history.read_bytes() + b"\n{}\n")

    result = checked(history, "--second")

    assert result.exit_code == 4
    assert "second judge" not in result.stdout


def test_both_judges_are_asked_about_a_job_seen_from_outside(tmp_path: Path) -> None:
    path = tmp_path / "job.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in wild_outside(3)))

    result = checked(path, "--second")

    assert result.exit_code in {0, 1, 10}
    assert "and it agrees on all " in result.stdout
    assert alone(str(path)).returncode == result.exit_code
