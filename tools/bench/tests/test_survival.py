"""The survival table: the reference survives, and each thing that is counted is counted where it happens."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from harness.database.pool import ConnectionPool
from harness.database.sink import EpochSink
from harness.faults.parts.parts import Sink
from harness.faults.registry import FaultName, kinds_by
from harness.scenario.workloads.lookups import Lookup
from harness.sut.defects.twelve import committing_blindly
from harness.sut.lookup import ReferenceLookup, own_nonces
from harness.tests.real_world import real_world
from harness.world.world import World
from tools.bench import survival_cell
from tools.bench.survival import Survived
from tools.bench.survival_cell import SINKS, Counted, survive
from tools.defects.sinks import assuming_committed

pytestmark = pytest.mark.real

SEEDS = range(1, 4)
MANY = range(1, 31)
_numbers = count(1)


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    """A local world with our own proxy."""
    with real_world("local", proxy="own", needs=frozenset({"packets"})) as opened:
        yield opened


def cell(world: World, kind: FaultName, *, seed: int, folder: Path, sink: Sink = "atomic") -> Counted:
    name = f"floodmark_survival_{next(_numbers)}"
    return survive(world, kind, seed=seed, sink=sink, name=name, folder=folder)


@pytest.mark.parametrize("sink", SINKS)
@pytest.mark.parametrize("kind", ["half_open", "lost_commit_reply", "reset_now"])
def test_the_reference_survives(world: World, tmp_path: Path, kind: FaultName, sink: Sink) -> None:
    row = Survived(kind=kind, cells=[cell(world, kind, seed=2, folder=tmp_path, sink=sink)])

    assert row.holds, row


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("kind", kinds_by("link"))
def test_the_reference_survives_at_thirty_seeds(world: World, tmp_path: Path, kind: FaultName) -> None:
    cells = [cell(world, kind, seed=seed, folder=tmp_path, sink=SINKS[seed % len(SINKS)]) for seed in MANY]

    assert Survived(kind=kind, cells=cells).holds, cells


def test_a_sink_that_does_not_ask_for_its_epoch_row_is_counted_as_doubled(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survival_cell, "EpochSink", committing_blindly(EpochSink))

    assert any(cell(world, "lost_commit_reply", seed=seed, folder=tmp_path).doubled for seed in SEEDS)


def test_a_sink_that_takes_an_error_for_a_commit_is_counted_as_lost(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(survival_cell, "EpochSink", assuming_committed(EpochSink))

    assert any(cell(world, "lost_commit", seed=seed, folder=tmp_path).lost for seed in SEEDS)


def test_a_row_of_another_key_is_counted_as_wrong(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def next_ones(record: Lookup, pool: ConnectionPool) -> list[dict[str, Any]]:
        assert isinstance(record.key, int), "the table of this test has keys of numbers"
        return await ReferenceLookup(own_nonces())(
            Lookup(id=record.id, key=(record.key + 1) % 20, service_ms=0), pool
        )

    monkeypatch.setattr(survival_cell, "ReferenceLookup", lambda _nonces: next_ones)

    assert cell(world, "latency", seed=1, folder=tmp_path).wrong == 60


def test_a_connection_that_is_not_given_up_is_counted_as_leaked(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Keeping(EpochSink):
        """Gives nothing up."""

        def close(self) -> None:
            kept.append(self)

    kept: list[EpochSink] = []
    monkeypatch.setattr(survival_cell, "_LEFT_S", 0.3)
    monkeypatch.setattr(survival_cell, "EpochSink", Keeping)

    leaked = cell(world, "latency", seed=1, folder=tmp_path).leaked
    for sink in kept:
        sink.transactions.close()

    assert leaked == 1


def test_a_fault_that_did_nothing_is_not_survived() -> None:
    idle = Counted(bit=False, wrong=0, lost=0, doubled=0, leaked=0, errors=0, took_s=1.0)

    assert not Survived(kind="latency", cells=[idle, idle]).holds
