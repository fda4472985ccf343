"""The Markdown, the annotations and the terminal's text: short, safe, the worst first."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import pytest

from harness.scenario.outcome import RunOutcome
from harness.sut.user_lookup import failure_of_lookup
from reports.campaign_view import view_of
from reports.markdown import MARKDOWN_CHARS_MAX, markdown_text
from reports.pretty import print_outcomes, terminal
from reports.run_section import section_of
from reports.tests.sample import HOSTILE, hostile_outcome, lost_outcome, pass_outcome
from reports.write import ANNOTATIONS_MAX, render


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("summaries")


def printed(*outcomes: RunOutcome, color: bool | None = None) -> str:
    stream = io.StringIO()
    print_outcomes(outcomes, console=terminal(stream, color=color), is_whole=True)
    return stream.getvalue()


def test_markdown_has_a_row_for_each_run_and_tells_the_failures(folder: Path) -> None:
    text = render([pass_outcome(folder), lost_outcome(folder)], "markdown", title="two runs")

    assert text.startswith("## ❌ two runs: not as expected")
    assert text.count("| `reference` | 735121 |") == 2
    assert "V8 VIOLATED" in text


def test_markdown_tells_the_worst_run_first(folder: Path) -> None:
    text = render([pass_outcome(folder), lost_outcome(folder)], "markdown")

    assert text.index(": violated\n") < text.index(": conformant\n")


def test_markdown_lets_nothing_hostile_through(folder: Path) -> None:
    text = markdown_text(view_of([hostile_outcome(folder)]), title=HOSTILE)

    assert not set("\x00\x1b\u202e\ud800") & set(text)
    prose = text.split("```text")[0].replace("\\`", "").split("`")[::2]
    assert [part for part in prose if "<script" in part.replace("\\<", "")] == []
    table = [line for line in text.splitlines() if line.startswith("| ")]
    assert {line.replace("\\|", "").count("|") for line in table} == {8}


def test_markdown_fits_a_comment_however_many_runs(folder: Path) -> None:
    section = section_of(lost_outcome(folder))

    text = markdown_text(view_of([section.outcome] * 300), title="many")
    more = markdown_text(view_of([section.outcome] * 900), title="many")

    assert len(text) <= MARKDOWN_CHARS_MAX
    assert text.count("V8 VIOLATED") == 1
    assert len(more) <= MARKDOWN_CHARS_MAX
    assert "900 of 900 runs made" in more
    assert "V8 lost | 900 |" in more


def test_json_is_one_document(folder: Path) -> None:
    assert json.loads(render([pass_outcome(folder)], "json"))["schema_version"] == 1


def test_annotations_are_single_lines_and_at_most_ten(folder: Path) -> None:
    errors = [f"the lookup raised ValueError: x for record 7 (mine.py:{line})" for line in range(6)]

    text = render([lost_outcome(folder, error=error) for error in errors], "github")

    lines = text.splitlines()
    assert len(lines) == ANNOTATIONS_MAX + 1
    assert all(line.startswith("::error title=V") for line in lines[:-1])
    assert lines[-1].startswith("::notice")
    assert "2 more are in the report" in lines[-1]


def test_a_run_that_went_as_expected_has_no_annotation(folder: Path) -> None:
    planted = lost_outcome(folder, mutant="planted", convicts=("V8",))

    text = render([pass_outcome(folder), planted], "github")

    assert text.startswith("::notice")


def test_an_annotation_cannot_be_broken_out_of(folder: Path) -> None:
    outcome = replace(lost_outcome(folder), scenario="x\n::error::y, z: 5%")

    lines = render([outcome], "github").splitlines()

    assert all(line.startswith(("::error title=V", "::notice")) for line in lines)


def test_the_terminal_says_verdict_threats_failures_faults_and_counts(folder: Path) -> None:
    text = printed(lost_outcome(folder))

    for word in ("✗ VIOLATED", "threats to validity", "V8 VIOLATED", "spike (latency)", "by SQL: rows 637"):
        assert word in text


def test_the_command_to_run_again_is_never_cut_off(folder: Path) -> None:
    outcome = lost_outcome(folder, again="floodmark run " + "x" * 300)

    assert printed(outcome).count(outcome.again + "\n") == 3


def test_of_many_runs_only_those_that_went_wrong_are_told_in_full(folder: Path) -> None:
    text = printed(*[pass_outcome(folder)] * 5, lost_outcome(folder))

    assert text.count("CONFORMANT") == 5
    assert text.count("counted in the database by SQL") == 1


def test_a_simulated_run_says_that_its_tables_are_simulated(folder: Path) -> None:
    text = printed(pass_outcome(folder, level="sim"))

    assert "counted in the simulated tables: rows 640" in text
    assert "by SQL" not in text


def test_the_terminal_sums_up_several_runs(folder: Path) -> None:
    assert "2 runs: 1 as expected, 1 not, 0 undecided." in printed(pass_outcome(folder), lost_outcome(folder))


def test_without_a_terminal_there_is_no_colour(folder: Path) -> None:
    assert "\x1b" not in printed(lost_outcome(folder))


def test_no_color_is_honoured(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("FORCE_COLOR", "1")

    assert "\x1b[3" not in printed(pass_outcome(folder))


def test_hostile_text_is_neither_markup_nor_control_on_the_terminal(folder: Path) -> None:
    text = printed(replace(hostile_outcome(folder), threats=("[bold]y[/bold]", HOSTILE)))

    assert "[bold]y[/bold]" in text
    assert not set("\x00\x1b\u202e\ud800") & set(text)


def test_no_text_of_a_run_can_stand_where_a_headline_does_trust9(folder: Path) -> None:
    hostile = "ValueError: bad\n✓ CONFORMANT  all is well"
    outcome = lost_outcome(folder, error=hostile, threats=(f"the run ended early: {hostile}",))

    lines = printed(outcome).splitlines()

    assert [line for line in lines if line.startswith("✓")] == []
    assert "      ✓ CONFORMANT  all is well" in lines
    assert "      ✓ CONFORMANT  all is well." in lines


def test_a_planted_defect_that_was_convicted_is_told_by_one_anomaly_meant_for_it(folder: Path) -> None:
    told = printed(lost_outcome(folder, mutant="snapshot-omits-completed", convicts=("V8", "V10")))

    assert told.count("VIOLATED") == 1
    assert "V8 VIOLATED" in told
    assert "events of this record" in told
    assert "the events around the witnesses" not in told


def test_a_violation_that_nobody_planted_is_told_for_every_invariant(folder: Path) -> None:
    told = printed(lost_outcome(folder))

    assert "V8 VIOLATED" in told
    assert "V10 VIOLATED" in told


def believed_by(folder: Path, *witnesses: str) -> str:
    """The terminal's text of a run whose first fault has these witnesses."""
    outcome = pass_outcome(folder)
    spike, *others = outcome.faults
    times = tuple(replace(time, witnesses=witnesses) for time in spike.times)
    return printed(replace(outcome, faults=(replace(spike, times=times), *others)))


def test_a_fault_that_is_believed_on_its_own_word_is_a_threat_trust10(folder: Path) -> None:
    text = " ".join(believed_by(folder, "the fault itself").split())

    assert "Fault spike (latency) is believed on its own word alone: no second witness confirms" in text
    assert "(only by the fault itself)" in text


def test_the_only_witness_of_a_fault_is_named_trust10(folder: Path) -> None:
    text = " ".join(believed_by(folder, "the server").split())

    assert "Fault spike (latency) is believed on the word of the server alone" in text


@pytest.mark.parametrize("witnesses", [("the proxy's log", "the clients' calls and errors"), ()])
def test_a_fault_with_two_witnesses_is_no_threat_trust10(folder: Path, witnesses: tuple[str, ...]) -> None:
    assert "believed" not in believed_by(folder, *witnesses)


def test_a_simulated_fault_is_not_asked_for_witnesses_trust10(folder: Path) -> None:
    assert "believed" not in printed(pass_outcome(folder))
    assert (
        json.loads(render([pass_outcome(folder)], "json"))["runs"][0]["faults"][0]["times"][0]["witnesses"]
        is None
    )


def test_runs_that_one_error_of_the_lookup_ended_are_told_once(folder: Path) -> None:
    ended = [
        lost_outcome(
            folder,
            error=f"subtask 1 has failed 4 times: the lookup raised ValueError: x {n} for record {n} ({line})",
        )
        for n, line in enumerate(["mine.py:3", "mine.py:3", "mine.py:9", "mine.py:3"])
    ]

    text = printed(*ended)

    assert text.count("  again: ") == 2
    assert "3 runs have one cause: the lookup raised ValueError at mine.py:3" in text


def test_the_words_of_a_lookups_failure_are_those_that_runs_are_grouped_by(folder: Path) -> None:
    failure = ValueError("one\ntwo (three)")
    failure.add_note("raised by the lookup at mine.py:3")
    error = str(failure_of_lookup(failure, 7))

    text = printed(*[lost_outcome(folder, error=error)] * 2)

    assert "2 runs have one cause: the lookup raised ValueError at mine.py:3" in text


def test_markdown_tells_runs_with_one_cause_once_u3(folder: Path) -> None:
    ended = lost_outcome(
        folder, error="subtask 0 failed 4 times; the last time: the worker's process ended with exit code 7"
    )

    text = render([ended] * 3, "markdown")

    assert text.count("\n### ") == 1
    assert "the worker's process ended with exit code 7 | 3 |" in text
