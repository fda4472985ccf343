"""The operator's rows, with tiny loads: all are there, what lacks is named, and a wrong contender ends the measure."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.world.settings import Places, WorldSettings
from tools.bench import operator_rows as rows
from tools.bench import rounds
from tools.bench.answer import WrongOutput
from tools.bench.operator_rate import OperatorLoad
from tools.bench.peer_job import PeerJob
from tools.bench.row import NotMeasured, Row

AT_ONCE = OperatorLoad(records=40, capacity=10, latency_ms=0)
TIMED = OperatorLoad(records=10, capacity=10, latency_ms=1)


class FixedPeer(PeerJob):
    """Takes a second for each record."""

    def __init__(self) -> None:
        self.about = "fixed"

    def run(self, load: OperatorLoad) -> float:
        return float(load.records)


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_AT_ONCE", "_AT_ONCE_FLINK", "_PYFLINK_AT_ONCE"):
        monkeypatch.setattr(rows, name, AT_ONCE)
    monkeypatch.setattr(rounds, "_put_garbage_aside", lambda: None)  # pytest's heap takes long to collect
    monkeypatch.setattr(rows, "_PYFLINK_TIMED", TIMED)
    monkeypatch.setattr(rows, "_TIMED", {TIMED: 0.9})
    monkeypatch.setattr(rows, "_RECORDED", {"at once": AT_ONCE})
    monkeypatch.setattr(rows, "_SEEDS", 2)
    monkeypatch.setattr(rows, "_EXAMPLES", 1)
    monkeypatch.setattr(rows, "_SHORT_ROUNDS", 1)
    monkeypatch.setattr(rows, "_SEEN_MANY", 1_100)


@pytest.mark.usefixtures("tiny")
def test_without_java_and_pyflink_what_they_would_fill_is_named(tmp_path: Path) -> None:
    said: list[str] = []
    settings = WorldSettings(places=Places(root=tmp_path))

    table = list(rows.operator_rows(settings=settings, pyflink=None, say=said.append))

    missing = [row for row in table if isinstance(row, NotMeasured)]
    assert (len(missing), len(table)) == (4, 11)
    assert all("--oracle" in row.reason or "--pyflink" in row.reason for row in missing)
    assert all("Flink" in row.name for row in missing)
    assert said[-1] == "PyFlink"


@pytest.mark.usefixtures("tiny")
def test_a_rate_is_ours_over_the_peers() -> None:
    """A second a record is far slower than the operator."""
    flink = FixedPeer()

    measured = [*rows._flink_rows(flink), *rows._timer_rows(flink), *rows._pyflink_rows(flink, flink)]

    against = [row for row in measured if isinstance(row, Row) and "Flink" in row.name]
    assert len(against) == 4
    assert all(row.value > 10 for row in against)
    assert next(row.goal for row in against if "PyFlink" in row.name and "goal" in row.name) == 1.0


@pytest.mark.usefixtures("tiny")
def test_a_wrong_output_of_any_contender_ends_the_measure(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(load: OperatorLoad) -> float:
        raise WrongOutput("lost a record")

    monkeypatch.setattr(rows, "run_task_window", wrong)

    with pytest.raises(WrongOutput, match="lost a record"):
        list(rows._task_rows())
