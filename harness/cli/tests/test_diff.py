"""`floodmark diff`: its exit codes, what it names, and its forms."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.cli.main import main
from harness.conform.oracle.program import find_oracle
from harness.judge.checkers.tests.legal_histories import legal_history
from harness.judge.checkers.tests.small_histories import text
from harness.system.errors import WorldError
from harness.world.settings import WorldSettings
from tools.cases import each
from tools.defects import MAILBOXES, mutant_named

SMALL = [
    "--set",
    "workload.records=60",
    "--set",
    "workload.checkpoint_every=20",
    "--set",
    "expects.records=1",
    "--set",
    "expects.checkpoints=1",
]


@pytest.fixture
def history(tmp_path: Path) -> Path:
    path = tmp_path / "left" / "history.jsonl"
    path.parent.mkdir()
    path.write_bytes(text(legal_history(7)))
    return path


def compared(capsys: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, dict[str, Any]]:
    code = main(["diff", *map(str, words), "--format", "json"])
    return code, json.loads(capsys.readouterr().out)


def refused(capsys: pytest.CaptureFixture[str], *words: str | Path) -> str:
    assert main(["diff", *map(str, words)]) == 4
    return capsys.readouterr().err


def test_a_history_and_itself_are_the_same(history: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, document = compared(capsys, history, history.parent)

    assert (code, document["same"], document["first"]) == (0, True, None)


def test_two_histories_part_at_the_event_that_was_taken_out(
    history: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = history.read_text().splitlines()
    place = next(i for i, line in enumerate(lines) if json.loads(line).get("k") == "out")
    other = history.with_name("other.jsonl")
    other.write_text("\n".join([*lines[:place], *lines[place + 1 :]]))

    code, document = compared(capsys, history, other)

    assert code == 1
    assert document["first"]["name"] == "out only left"
    assert document["first"]["left_n"] == json.loads(lines[place])["n"]
    assert "V8" in {one["invariant"] for one in document["verdicts"]}


def test_a_system_against_itself_does_not_differ(capsys: pytest.CaptureFixture[str]) -> None:
    code, document = compared(capsys, "calm", "--against", "reference", "--seed", "3", *SMALL)

    assert (code, document["same"], document["seeds"]) == (0, True, [3])


@pytest.mark.sweep
def test_a_planted_defect_is_told_by_its_first_event_its_verdicts_and_what_is_known(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    page = tmp_path / "page.html"

    code, document = compared(
        capsys, "calm", "--mutant", "settles-twice", "--seed", "3", "--runs", "2", "--html", page, *SMALL
    )

    assert (code, document["first"]["name"]) == (1, "res only right")
    assert "a completion is delivered twice" in document["first"]["documented"]
    assert {"invariant": "verdict", "left": {"pass": 2}, "right": {"fail": 2}} in document["verdicts"]
    assert "First difference: res only right" in page.read_text()


@each("right", sorted(MAILBOXES))
def test_two_mailboxes_part_on_a_program_of_a_few_steps(
    right: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, document = compared(capsys, "--against", mutant_named(right), "--seed", "0", "--runs", "3000")

    assert code == 1
    assert document["first"]["documented"].endswith(MAILBOXES[right].about)
    assert len(document["first"]["rows"]) <= 6


def test_the_first_two_eras_part_at_urgent_mail(capsys: pytest.CaptureFixture[str]) -> None:
    code, document = compared(
        capsys, "--sut", "tools.defects:era_1", "--against", "tools.defects:era_2", "--seed", "0"
    )

    assert code == 1
    assert document["first"]["name"].endswith(" changed")
    assert "gets: " in document["first"]["say"]
    assert any("urgent=true" in row["left"] for row in document["first"]["rows"])


def test_a_mailbox_and_itself_are_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    code, document = compared(
        capsys, "--sut", "tools.defects:era_2", "--against", "tools.defects:era_2", "--runs", "30"
    )

    assert (code, document["same"]) == (0, True)


@pytest.mark.sweep
def test_the_first_design_parts_from_the_reference_by_what_it_cannot_do(
    capsys: pytest.CaptureFixture[str],
) -> None:
    code, document = compared(capsys, "--against", "reference-emitter", "--seed", "1", "--runs", "10")

    assert (code, document["first"]["name"]) == (1, "hello: abilities")
    assert document["first"]["say"] == "only left: keyed, retry, status, flink-profile; only right: none"
    assert "on what both can do, no script differs" in document["notes"]


@pytest.mark.oracle
def test_the_real_flink_parts_from_the_reference_by_a_quirk_of_its_retries(
    capsys: pytest.CaptureFixture[str],
) -> None:
    try:
        find_oracle(WorldSettings.from_environment())
    except WorldError as lacking:
        pytest.skip(str(lacking))

    code, document = compared(capsys, "--against", "flink", "--seed", "3")

    quirk = document["first"]["name"].split(":")[0]
    assert (code, quirk) == (1, "A81")
    assert f"Deviations: {quirk}" in document["first"]["documented"]


@each(
    ("words", "say"),
    [
        ((), "nothing to compare with"),
        (("calm",), "nothing to compare with"),
        (("calm", "--against", "settles-twicf"), "did you mean 'settles-twice'?"),
        (
            ("calm", "--against", "tools.defects:era_1", "--mutant", "tools.defects:era_2"),
            "leave one of them out",
        ),
        (("a", "b", "c"), "more than two things"),
        (("nowhere", "nothing"), "there is no file or folder nowhere"),
        (("--against", "settles-twice"), "needs a scenario to run"),
        (("--sut", "settles-twice", "--against", "flink"), "cannot be compared over the operator protocol"),
    ],
)
def test_what_cannot_be_compared_is_refused_with_a_line(
    words: tuple[str, ...], say: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert say in refused(capsys, *words)


def test_a_malformed_history_is_refused_with_its_line(
    history: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = history.with_name("broken.jsonl")
    broken.write_text("no json\n")

    assert "line 1: the line is not JSON" in refused(capsys, history, broken)


def test_folders_with_other_numbers_of_histories_are_refused(
    history: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = history.parent.parent / "right"
    folder.mkdir()
    for name in ("a.jsonl", "b.jsonl"):
        (folder / name).write_bytes(history.read_bytes())

    assert "holds 1 histories" in refused(capsys, history.parent, folder)


def test_a_page_that_cannot_be_written_is_code_11(history: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["diff", str(history), str(history), "--html", str(history / "page.html")])

    assert code == 11
    assert "the page cannot be written" in capsys.readouterr().err
