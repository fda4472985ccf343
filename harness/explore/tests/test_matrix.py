"""Claims about the matrix: what it depends on, what it answers with, and how it is shown."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from harness.explore import kill_matrix as module
from harness.explore.kill_matrix import (
    DefectEntry,
    Matrix,
    MatrixRow,
    ReferenceResult,
    SuspectResult,
    as_json,
    as_markdown,
    as_text,
    fill,
    summary,
)
from harness.levels.sim.canaries import refuse_blind_simulation
from harness.sut.defects import DEFECTS, Defect
from harness.sut.variant import HONEST
from harness.system.clock import CALENDAR_CLOCK, Deadline
from harness.system.errors import Exit, HarnessError
from harness.tests.harness_defects import acquits_everything

CHARGE = DefectEntry(names=("settles-twice", "watermarks-at-once"), seed=1, runs=2)


def row(name: str, trial: SuspectResult) -> MatrixRow:
    return MatrixRow(suspect=DEFECTS[name], trial=trial)


LEAK = row(
    "segment-leak",
    SuspectResult(name="segment-leak", named=("V2",), runs=3, convicted={"V2": 3, "V5": 1}),
)
OFFSET = row(
    "offset-one-late",
    SuspectResult(name="offset-one-late", named=("V10",), runs=9, convicted={"V8": 2}),
)
CLEAN = Matrix(charge=CHARGE, reference=ReferenceResult(runs=6, convicted={}), rows=(LEAK,))


@pytest.mark.sweep
def test_as_many_processes_as_there_are_fill_the_same_matrix() -> None:
    assert fill(CHARGE, jobs=1, deadline=Deadline(60, clock=CALENDAR_CLOCK)) == fill(
        CHARGE, jobs=2, deadline=Deadline(60)
    )


def test_a_matrix_has_a_row_for_each_that_is_charged_and_a_clean_reference() -> None:
    said: list[str] = []

    matrix = fill(
        CHARGE,
        jobs=1,
        deadline=Deadline(60, clock=CALENDAR_CLOCK),
        tell=lambda done, asked: said.append(f"{done} of {asked}"),
    )

    assert [row.suspect.name for row in matrix.rows] == list(CHARGE.names)
    assert matrix.reference.runs == CHARGE.runs
    assert matrix.exit_code is Exit.HOLD
    assert matrix.numbers == (2, 2)
    assert said[-1] == "3 of 3"


def test_a_judge_who_overlooks_a_canary_fills_no_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_blind_simulation.cache_clear()
    acquits_everything(monkeypatch)

    with pytest.raises(HarnessError, match="V1 reordered"):
        fill(CHARGE, jobs=1, deadline=Deadline(60, clock=CALENDAR_CLOCK))


def test_each_process_of_a_matrix_begins_with_the_canaries_trust9(monkeypatch: pytest.MonkeyPatch) -> None:
    """The parent's are seen; those of the processes that judge are not."""
    monkeypatch.setattr(module, "refuse_blindness_here", blind)

    with pytest.raises(HarnessError, match="blind in a process"):
        fill(CHARGE, jobs=2, deadline=Deadline(60, clock=CALENDAR_CLOCK))


def blind() -> None:
    raise HarnessError("blind in a process")


@pytest.mark.parametrize(
    ("matrix", "code"),
    [
        (CLEAN, Exit.HOLD),
        (replace(CLEAN, rows=(LEAK, OFFSET)), Exit.VIOLATION),
        (replace(CLEAN, reference=ReferenceResult(runs=6, convicted={3: ("V8",)})), Exit.VIOLATION),
        (replace(CLEAN, rows=(replace(OFFSET, trial=replace(OFFSET.trial, runs=0)),)), Exit.UNDECIDED),
        (replace(CLEAN, rows=(replace(OFFSET, trial=replace(OFFSET.trial, in_time=False)),)), Exit.UNDECIDED),
        (replace(CLEAN, rows=(replace(LEAK, trial=replace(LEAK.trial, in_time=False)),)), Exit.HOLD),
    ],
    ids=[
        "clean",
        "survivor",
        "reference",
        "never-occurred",
        "out-of-time",
        "convicted-in-time",
    ],
)
def test_the_exit_code_is_of_success_only_if_everything_is_as_it_should_be(
    matrix: Matrix, code: Exit
) -> None:
    assert matrix.exit_code is code


def test_a_number_counts_only_if_all_its_variants_are_convicted() -> None:
    early = MatrixRow(
        suspect=Defect(number=4, name="offset-one-early", about="", variant=HONEST),
        trial=SuspectResult(name="", named=("V10",), runs=1, convicted={"V10": 1}),
    )

    assert replace(CLEAN, rows=(LEAK, OFFSET, early)).numbers == (1, 2)


def test_the_summary_names_survivors_and_whom_nobody_should_have_convicted() -> None:
    bad = replace(CLEAN, rows=(LEAK, OFFSET), reference=ReferenceResult(runs=6, convicted={3: ("V8",)}))

    told = summary(bad)

    assert "1 of 2 convicted" in told
    assert "survivor: offset-one-late, in 9 runs" in told
    assert "the reference, seed 3: V8" in told


def test_on_a_terminal_who_is_meant_for_it_stands_first_with_a_star() -> None:
    lines = as_text(replace(CLEAN, rows=(LEAK, OFFSET))).splitlines()

    assert lines[:2] == ["M9   segment-leak     V2* 3, V5 1", "M4   offset-one-late  V10* -, V8 2"]


def test_as_markdown_each_cell_is_the_run_of_a_conviction_in_bold_if_it_is_meant() -> None:
    heads, _, reference, leak, offset = as_markdown(replace(CLEAN, rows=(LEAK, OFFSET))).splitlines()

    assert heads.startswith("|  | mutant | runs | V1 | V2 | V3 | V4 | V5 |")
    assert reference.startswith("|  | the reference | 6 |  |  |")
    assert leak.startswith("| M9 | `segment-leak` | 3 |  | **3** |  |  | 1 |")
    assert "| 2 |  | **-** |" in offset


def test_as_json_everything_is_there() -> None:
    told = json.loads(as_json(CLEAN))

    assert (told["convicted"], told["numbers"]) == (1, 1)
    assert told["mutants"][0]["first"] == {"V2": 3, "V5": 1}
