"""The certificate of a judged operator: its word follows from the cases, and a changed transcript is noticed."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from harness.conform.cases_judged import Asked
from harness.conform.conclusion import CaseOutcome, ConformCase, Spoken, lines_file
from harness.conform.operator_judged import CHECKS, OperatorJudged, protocol_certificate
from harness.conform.protocol.conversation_file import ConversationFile, catalogue
from harness.conform.protocol.events import Hello
from harness.conform.protocol.program import Limits
from harness.conform.verifying import verified
from harness.scenario.certificate import Certificate

FILES = {file.name: file for file in catalogue()}
ORDERED = FILES["order/ordered_output_is_input_order"]


def case_of(
    file: ConversationFile, *, outcome: CaseOutcome = CaseOutcome.PASS, wrong: Sequence[str] = ()
) -> ConformCase:
    """The conversation as its file has it, with its last answer replaced if it failed."""
    spoken = [Spoken(told=one.told, answer=one.answer) for one in file.exchanges]
    if outcome is CaseOutcome.FAIL:
        spoken[-1] = Spoken(told=spoken[-1].told, answer=wrong)
    return ConformCase(
        name=file.name,
        claim=file.claim,
        outcome=outcome,
        why="it is answered otherwise" if outcome is CaseOutcome.FAIL else "",
        expected=file.exchanges[-1].answer,
        came=wrong,
        spoken=spoken,
    )


def certificate(cases: Sequence[ConformCase], folder: Path) -> Certificate:
    asked = Asked(label="mine", argv=["./mine"], seed=3, scripts=0, limits=Limits())
    hello = Hello(protocol=1, name="mine", version="7", abilities=["ordered"])
    judged = OperatorJudged(asked=asked, hello=hello, cases=cases, random=None)
    return protocol_certificate(judged, folder, made_at="2026-01-01T00:00:00", took_s=1.0)


def test_all_cases_that_pass_make_it_conformant(tmp_path: Path) -> None:
    made = certificate([case_of(ORDERED)], tmp_path)

    assert (made.tone, made.word, made.cause) == ("good", "conformant", "")
    assert [(row.check, row.family, row.passed) for row in made.rows] == [("order", "ordered", 1)]
    assert verified(made, tmp_path).holds


def test_a_case_that_fails_is_the_cause_and_has_its_lines(tmp_path: Path) -> None:
    made = certificate([case_of(ORDERED, outcome=CaseOutcome.FAIL, wrong=('{"ev":"ended"}',))], tmp_path)

    assert made.word == "not conformant"
    assert ORDERED.claim in made.cause
    (run,) = made.runs
    assert "to paste:" in run.paste
    pasted = (tmp_path / "failed/order__ordered_output_is_input_order.jsonl").read_text().splitlines()
    assert pasted == [one.told for one in ORDERED.exchanges]
    assert verified(made, tmp_path).holds, "it says itself that it is not conformant"


def test_what_is_not_claimed_is_told_and_not_counted(tmp_path: Path) -> None:
    skipped = ConformCase(name="retry/x", claim="", outcome=CaseOutcome.NOT_CLAIMED, why="needs retry")

    made = certificate([case_of(ORDERED), skipped], tmp_path)

    assert len(made.runs) == made.asked == 1
    assert any("needs retry" in sentence for sentence in made.not_shown)


def test_nothing_but_skipped_cases_is_not_green(tmp_path: Path) -> None:
    skipped = ConformCase(name="retry/x", claim="", outcome=CaseOutcome.NOT_CLAIMED, why="needs retry")

    assert certificate([skipped], tmp_path).word == "not decided"


def test_a_changed_byte_of_a_transcript_does_not_hold(tmp_path: Path) -> None:
    made = certificate([case_of(ORDERED)], tmp_path)
    assert made.runs[0].scenario is not None
    path = tmp_path / made.runs[0].scenario.file
    path.write_text(path.read_text().replace('"ev":"emit"', '"ev":"emiT"', 1))

    problems = verified(made, tmp_path).problems

    assert any("was changed" in problem for problem in problems)


@pytest.mark.parametrize("content", [b"", b'{"cmd":"hello"}\n', None])
def test_changed_lines_to_paste_are_noticed_and_their_file_is_named(
    tmp_path: Path, content: bytes | None
) -> None:
    made = certificate([case_of(ORDERED, outcome=CaseOutcome.FAIL, wrong=('{"ev":"ended"}',))], tmp_path)
    path = tmp_path / lines_file(ORDERED.name)
    path.unlink() if content is None else path.write_bytes(content)

    (problem,) = verified(made, tmp_path).problems

    assert "failed/order__ordered_output_is_input_order.jsonl" in problem
    assert ("cannot be read" if content is None else "was changed") in problem


def test_a_failure_that_is_told_as_a_pass_is_judged_again(tmp_path: Path) -> None:
    lie = case_of(ORDERED, outcome=CaseOutcome.FAIL, wrong=('{"ev":"ended"}',))
    told = ConformCase(name=lie.name, claim=lie.claim, outcome=CaseOutcome.PASS, spoken=lie.spoken)

    problems = verified(certificate([told], tmp_path), tmp_path).problems

    assert any("judged again its transcript is a fail, not a pass" in problem for problem in problems)


def test_each_folder_of_the_catalogue_has_its_sentence() -> None:
    folders = {name.partition("/")[0] for name in FILES}

    assert folders | {"random scripts"} == {*CHECKS}
