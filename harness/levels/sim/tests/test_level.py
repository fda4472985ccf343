"""A simulated run as an outcome: what was judged is stored, and a recording with gaps is no pass."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.database.simulated.tape import MemoryRecorder
from harness.engine.level import Opening, RunSite, refuse
from harness.engine.perform import perform
from harness.history.event import AttemptEvent, Call, Out, Owm
from harness.history.read import read_whole
from harness.history.verdict import Judgement, Outcome
from harness.judge.checkers.judge import judge_file
from harness.levels.sim.level import SimulatedLevel
from harness.scenario.file import apply_settings, load_many
from harness.scenario.model import Scenario
from harness.scenario.order import Order
from harness.scenario.outcome import RunOutcome
from harness.scenario.settings import with_asked_files
from harness.sut.variant import Variant
from harness.system.errors import UsageError


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


class _Threaded:
    def __call__(self, record: Any) -> Any:
        return []


class _OfThePool:
    async def open(self, database: Any) -> None:
        self.opened = database

    async def __call__(self, record: Any, pool: Any) -> Any:
        rows = await pool.fetch_all("SELECT name FROM customer WHERE k = %s", (record.key,))
        return [{"name": row[0], "amount": record.amount} for row in rows]

    async def close(self) -> None:
        del self.opened


def _own(folder: Path) -> Scenario:
    (folder / "orders.jsonl").write_text("".join(f'{{"key": {n % 9}, "amount": {n}}}\n' for n in range(60)))
    return with_asked_files(scenario(), records=folder / "orders.jsonl")


def test_records_of_a_file_are_the_input_of_a_lookup_object_of_the_pool_u4(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _import_as(monkeypatch, "mine_of_sim", lookup=_OfThePool)
    mine = Order(scenario=_own(tmp_path), level="sim", seed=4, sut="mine_of_sim:lookup")
    level = SimulatedLevel()
    refuse(mine, level)

    with level.open(Opening()) as play:
        outcome = perform(mine, play=play, site=RunSite(run_id="run", folder=tmp_path / "run"))

    assert outcome.judgement.outcome is Outcome.PASS
    assert (outcome.accounting["offered"], outcome.accounting["records"]) == (60, 60)
    _, events = read_whole(outcome.history)
    values: list[Any] = [event.v for event in events if isinstance(event, Out)]
    assert sorted(value["amount"] for value in values) == list(range(60))


def test_what_needs_threads_or_a_server_is_refused_u4(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _import_as(monkeypatch, "mine_of_sim", lookup=_Threaded)
    blocking = Order(scenario=scenario(), level="sim", seed=4, sut="mine_of_sim:lookup")
    schema = scenario().model_copy(update={"own_schema": "a.sql", "sql": "model"})

    with pytest.raises(
        UsageError, match="blocks, so its calls run on threads, and level sim has one"
    ) as of_lookup:
        refuse(blocking, SimulatedLevel())
    with pytest.raises(
        UsageError, match=r"a\.sql makes tables in a real server, and --sql model has none"
    ) as of_tables:
        refuse(Order(scenario=schema, level="sim", seed=4, sut="mine_of_sim:lookup"), SimulatedLevel())

    assert "--level live" in of_lookup.value.fix
    assert "leave --sql out" in of_tables.value.fix


def _import_as(monkeypatch: pytest.MonkeyPatch, name: str, **attributes: Any) -> None:
    monkeypatch.setitem(sys.modules, name, SimpleNamespace(**attributes))
