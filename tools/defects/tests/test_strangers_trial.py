"""The trial of the strangers: what it tells of one, and when it fails."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from harness.system.errors import Exit, UsageError
from tools.cases import in_sweep_after
from tools.defects import STRANGERS
from tools.defects.strangers_trial import Tried, main, page_text, try_stranger


def tried(name: str, *, convicted_by: str | None) -> Tried:
    return Tried(name=name, runs=1, differed=1, undecided=0, convicted_by=convicted_by, convicted_in="seed 0")


def test_a_convicted_stranger_is_told_with_invariant_class_and_seed() -> None:
    result = try_stranger("restores-uncompleted", draws=1, scenarios=0)

    assert result.convicted_by is not None
    assert "V11 bad-restore" in result.convicted_by
    assert result.convicted_in == "seed 0"
    assert result.holds


def test_a_run_like_the_references_convicts_nobody() -> None:
    result = try_stranger("fence-read-without-lock", draws=0, scenarios=0)

    assert (result.runs, result.differed, result.convicted_by) == (0, 0, None)


def test_a_survivor_holds_only_with_a_recorded_reason() -> None:
    survivors = [tried(name, convicted_by=None) for name in STRANGERS]

    assert [one.name for one in survivors if one.holds] == [
        name for name, stranger in STRANGERS.items() if stranger.survives is not None
    ]


@pytest.mark.parametrize(
    ("name", "code"),
    in_sweep_after(1, [("truncates-texts", Exit.VIOLATION), ("misses-remembered", Exit.HOLD)]),
)
def test_a_survivor_without_a_reason_fails_the_trial(name: str, code: Exit) -> None:
    ended = CliRunner().invoke(main, [name, "--draws", "0", "--scenarios", "0"])

    assert ended.exit_code == code


def test_an_unknown_name_is_refused_before_the_first_run() -> None:
    ended = CliRunner().invoke(main, ["no-such-stranger"])

    assert isinstance(ended.exception, UsageError)


def test_the_page_has_a_row_for_each_stranger() -> None:
    page = page_text([tried(name, convicted_by="V8 lost") for name in STRANGERS], draws=1, scenarios=0)

    assert all(f"| `{name}` |" in page for name in STRANGERS)
