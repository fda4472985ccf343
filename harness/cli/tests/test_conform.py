"""`floodmark conform` says what is wrong with its arguments before anything is started."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from harness.cli.main import main
from harness.conform.cases_judged import Asked
from harness.conform.operator_judged import repeated_by
from harness.conform.protocol.program import Limits
from harness.system.errors import Exit
from tools.cases import each


@each(
    ("arguments", "code", "says"),
    [
        ([], Exit.NOTHING_RAN, "there is nothing to judge"),
        (["--also", "mine"], Exit.USAGE, "is not LABEL=COMMAND"),
        (["--beside", "flink-2.4"], Exit.USAGE, "did you mean 'flink-2.3'?"),
        (["--label", "mine", "--beside", "reference"], Exit.USAGE, "--label names COMMAND"),
        (["--profile", "lenient", "--", "x"], Exit.USAGE, "lenient"),
        (["--", "no-such-program-at-all"], Exit.USAGE, "cannot be started"),
    ],
)
def test_a_mistake_is_one_sentence_and_the_documented_code(
    arguments: list[str], code: Exit, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    report = tmp_path / "report"

    assert main(["conform", "--report", str(report), *arguments]) == code

    assert says in capsys.readouterr().err
    assert not report.exists(), "nothing was begun"


def test_a_folder_with_a_certificate_is_not_written_over(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "certificate.json").write_text("{}")

    assert main(["conform", "--report", str(tmp_path), "--", "anything"]) == Exit.USAGE

    assert "holds a certificate already" in capsys.readouterr().err


def test_what_is_judged_beside_is_repeated_by_its_name_with_the_profile_that_it_serves() -> None:
    asked = Asked(
        label="reference, flink",
        argv=("python", "serve"),
        asks="flink",
        seed=1,
        scripts=50,
        limits=Limits(),
        beside="reference-flink",
    )

    assert repeated_by(asked) == "floodmark conform --seed 1 --scripts 50 --beside reference-flink"
    assert repeated_by(replace(asked, beside=None)).endswith("--scripts 50 -- python serve")
