"""A defect of the harness itself ends `floodmark run` with an error of the harness, never with a verdict (T9)."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.cli.main import main
from harness.engine.canaries_in_world import refuse_blind_files
from harness.errors import Exit, HarnessError
from harness.tests.harness_defects import IN_FILES, IN_SIMULATION

RUN = [
    "run", "calm", "--level", "sim", "--seed", "7", "--quiet",
    "--set", "workload.records=20", "--set", "workload.checkpoint_every=6",
    "--set", "expects.records=40", "--set", "expects.checkpoints=3",
]  # fmt: skip


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_an_honest_harness_sees_every_canary_trust9(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(RUN) == Exit.HOLD
    refuse_blind_files(level="live")


@pytest.mark.parametrize("part", IN_SIMULATION)
def test_a_defect_of_the_harness_ends_a_simulated_run_with_3_trust9(
    part: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    plant, says = IN_SIMULATION[part]
    plant(monkeypatch)

    code = main(RUN)

    assert code == Exit.INTERNAL
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_defect_of_the_harness_ends_many_simulated_runs_with_3_trust9(
    jobs: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each process that judges begins with the canaries."""
    plant, says = IN_SIMULATION["screen"]
    plant(monkeypatch)

    code = main([*RUN, "--runs", "17", "--jobs", jobs])

    assert code == Exit.INTERNAL
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("part", IN_FILES)
def test_a_defect_on_the_way_through_files_is_found_before_a_run_trust9(
    part: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant, says = IN_FILES[part]
    plant(monkeypatch)

    with pytest.raises(HarnessError, match=says):
        refuse_blind_files(level="live")
