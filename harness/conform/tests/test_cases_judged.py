"""A program is judged by the catalogue: each conversation passes, fails with its lines, or is not asked of it."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from harness.conform import cases_judged
from harness.conform.cases_judged import BREACHES_MAX, Asked, judge_conversations
from harness.conform.conclusion import CaseOutcome, ConformCase
from harness.conform.operator_judged import judge_operator
from harness.conform.protocol.conversation_file import catalogue
from harness.conform.protocol.driver import ProgramDriver
from harness.conform.protocol.events import Hello
from harness.conform.protocol.program import Limits
from harness.conform.protocol.tests import fake_operator
from harness.conform.script_difference import serving_command
from harness.system.errors import Exit, SutError

LIMITS = Limits(start_s=20.0, answer_s=20.0)
FAKE = [sys.executable, "-S", "-E", fake_operator.__file__]
CLAIMS = 'ordered","unordered'
HELLO = f'{{"ev":"hello","protocol":1,"name":"rude","version":"1","abilities":["{CLAIMS}"]}}\\n{{"ev":"quiet"}}\\n'


def python(code: str) -> list[str]:
    return [sys.executable, "-S", "-E", "-u", "-c", code]


FEW = [file for file in catalogue() if file.name.startswith(("completion/", "order/", "keyed/"))]


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """A few dozen conversations instead of all."""
    monkeypatch.setattr(cases_judged, "catalogue", lambda: FEW)


def judged(argv: list[str]) -> list[ConformCase]:
    with ProgramDriver(argv, limits=LIMITS) as driver:
        hello = driver.greet()
    asked = Asked(label="it", argv=argv, seed=1, scripts=0, limits=LIMITS)
    return judge_conversations(asked, hello=hello, heard=lambda case: None)


@pytest.mark.real
@pytest.mark.timeout(120)
def test_a_program_that_forgets_timestamps_fails_with_the_lines_to_paste() -> None:
    cases = judged([*FAKE, "forgets the timestamp"])

    failed = [case for case in cases if case.outcome is CaseOutcome.FAIL]
    right = {case.name for case in judged([*FAKE, ""]) if case.outcome is CaseOutcome.FAIL}
    first = next(case for case in failed if case.name not in right)
    assert first.to_paste.startswith('{"cmd":"hello","protocol":1}\n{"cmd":"open"')
    assert first.expected != first.came
    assert "is answered otherwise" in first.why
    assert any(case.outcome is CaseOutcome.NOT_CLAIMED for case in cases)
    judged_twice = {case.second for case in cases if case.outcome in {CaseOutcome.PASS, CaseOutcome.FAIL}}
    assert judged_twice == {"agrees"}


@pytest.mark.real
@pytest.mark.timeout(120)
def test_a_file_of_the_catalogue_that_is_wrong_sets_the_judges_at_odds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file = next(file for file in FEW if file.name == "order/ordered_output_is_input_order")
    wrong = replace(file, exchanges=[*file.exchanges[:-1], replace(file.exchanges[-1], answer=())])
    monkeypatch.setattr(cases_judged, "catalogue", lambda: [wrong])

    (case,) = judged(serving_command("reference"))

    assert (case.outcome, case.second) == (CaseOutcome.FAIL, "differs")


@pytest.mark.real
@pytest.mark.timeout(120)
def test_a_program_that_dies_in_the_middle_fails_there_and_the_rest_is_given_up() -> None:
    dies = python(f"import sys; sys.stdin.readline(); sys.stdout.write('{HELLO}'); sys.stdin.readline()")

    cases = judged(dies)

    run = [case for case in cases if case.outcome in {CaseOutcome.FAIL, CaseOutcome.NOT_RUN}]
    assert [case.outcome for case in run[:BREACHES_MAX]] == [CaseOutcome.FAIL] * BREACHES_MAX
    assert {case.outcome for case in run[BREACHES_MAX:]} == {CaseOutcome.NOT_RUN}
    assert "died" in run[0].why
    assert run[0].spoken, "the lines up to its death"


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["no-such-program-at-all"], "cannot be started"),
        (python("pass"), "died"),
        (python("import sys; sys.stdin.read()"), "gave no answer"),
        (
            python("import sys; sys.stdin.readline(); print('[]'); print('{\"ev\":\"quiet\"}')"),
            "not an event",
        ),
    ],
    ids=["not found", "ends at once", "does not answer", "rubbish"],
)
def test_a_program_that_cannot_be_spoken_to_is_one_clear_line(argv: list[str], says: str) -> None:
    limits = Limits(start_s=0.2 if says == "gave no answer" else 20.0, answer_s=20.0)
    asked = Asked(label="rude", argv=argv, seed=1, scripts=0, limits=limits)

    with pytest.raises(SutError, match=says) as caught:
        judge_operator(asked)

    assert caught.value.exit_code == Exit.USAGE
    assert len(str(caught.value).partition("\n")[0]) < 400


def test_what_is_not_claimed_is_not_asked(tmp_path: Path) -> None:
    nothing = Hello(protocol=1, name="quiet", version="1", abilities=[])

    argv = [str(tmp_path / "never-started")]
    asked = Asked(label="it", argv=argv, asks="flink", seed=1, scripts=0, limits=LIMITS)

    cases = judge_conversations(asked, hello=nothing, heard=lambda case: None)

    assert {case.outcome for case in cases} == {CaseOutcome.NOT_CLAIMED}
    assert all("flink-profile" in case.why for case in cases)
