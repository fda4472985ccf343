"""A simulated run as an outcome: what was judged is stored, and a recording with gaps is no pass."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harness.checkers.judge import judge_file
from harness.engine.level import Opening, RunSite
from harness.engine.perform import perform
from harness.history.event import AttemptEvent, Call, Owm
from harness.levels.sim.level import SimulatedLevel
from harness.runs.order import Order
from harness.runs.outcome import RunOutcome
from harness.scenario.file import apply_settings, load_many
from harness.scenario.model import Scenario
from harness.simulation.tape import MemoryRecorder
from harness.sut.variant import Variant
from harness.verdict import Judgement, Outcome


def scenario() -> Scenario:
    [spike] = load_many(["latency-spike-ordered"])
    small = (
        "workload.records=40",
        "workload.checkpoint_every=11",
        "expects.records=80",
        "expects.checkpoints=3",
        "faults.spike.when.at=30ms",
        "faults.spike.for=100ms",
    )
    return apply_settings(spike, small)


def order() -> Order:
    return Order(scenario=scenario(), level="sim", seed=4, again="again")


def performed(folder: Path, *, variant: Variant | None = None) -> RunOutcome:
    """A run kept whole, in a folder of its own."""
    with SimulatedLevel(variant=variant).open(Opening()) as play:
        return perform(order(), play=play, site=RunSite(run_id="run", folder=folder / "run"))


def test_events_that_the_recorder_drops_without_a_gap_leave_the_run_unknown_trust9(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is numbered that was dropped; the journal has counted it."""
    honest = MemoryRecorder.event

    def dropping(self: MemoryRecorder, kind: type[AttemptEvent], **fields: Any) -> None:
        if kind is not Owm:
            honest(self, kind, **fields)

    monkeypatch.setattr(MemoryRecorder, "event", dropping)

    outcome = performed(tmp_path)

    assert outcome.judgement.outcome is not Outcome.PASS
    assert any("the recording has gaps" in threat for threat in outcome.threats)


def test_the_stored_history_gives_the_same_verdict_again(tmp_path: Path) -> None:
    outcome = performed(tmp_path)

    judged_again = judge_file(outcome.history)
    assert isinstance(judged_again, Judgement)
    assert outcome.judgement.outcome is judged_again.outcome is Outcome.PASS
    assert [v.outcome for v in judged_again.invariants] == [v.outcome for v in outcome.judgement.invariants]


def test_an_outcome_tells_of_the_fault_and_of_the_tables(tmp_path: Path) -> None:
    outcome = performed(tmp_path)

    [spike] = outcome.faults
    assert spike.bites
    assert spike.healed_us is not None
    assert spike.armed_us is not None
    assert spike.healed_us - spike.armed_us == 100_000
    assert outcome.accounting == {
        "offered": 80, "rows": 80, "records": 80, "doubled": 0, "epochs": 8, "dead_letters": 0, "disordered": 0,
        "missing": 0,
    }  # fmt: skip
    assert outcome.world.kind == "simulated"


class _Forgetful(MemoryRecorder):
    """Loses the tenth call, as a recorder with a bug would."""

    _calls = 0

    def _write(self, number: int, event: Any) -> None:
        self._calls += isinstance(event, Call)
        if not (isinstance(event, Call) and self._calls == 10):
            super()._write(number, event)


def test_a_recording_with_gaps_is_never_a_pass(tmp_path: Path) -> None:
    variant = Variant(recorder=lambda _: _Forgetful)

    outcome = performed(tmp_path, variant=variant)

    assert outcome.judgement.outcome in {Outcome.UNKNOWN, Outcome.FAIL}
    assert any("gaps" in threat for threat in outcome.threats)
