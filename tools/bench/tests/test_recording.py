"""The cost of recording, and of a snapshot: each is of a run that did what it was to do."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.history.journal import Journal
from reference_impl.operator.async_wait import AsyncWaitOperator
from tools.bench.answer import WrongOutput
from tools.bench.operator_rate import OperatorLoad
from tools.bench.recording import lookups, run_recorded, run_unrecorded
from tools.bench.snapshot_cost import snapshot_s

LOAD = OperatorLoad(records=60, capacity=10, latency_ms=0)


def test_both_sides_give_a_time_for_the_same_records() -> None:
    records = lookups(LOAD.records)

    assert run_recorded(LOAD, records) > 0
    assert run_unrecorded(LOAD, records) > 0


@pytest.mark.parametrize("silent", ["took_record", "called", "settled", "emits"])
def test_a_recording_that_leaves_an_event_out_gets_no_time(
    silent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Journal, silent, lambda journal, **event: None)

    with pytest.raises(WrongOutput, match="not 60 of each"):
        run_recorded(LOAD, lookups(LOAD.records))


def test_a_snapshot_is_timed_with_what_is_in_flight() -> None:
    """A56."""
    assert snapshot_s(seen=50, in_flight=5) > 0


def test_a_snapshot_that_omits_a_record_gets_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AsyncWaitOperator, "snapshot", lambda operator: ())

    with pytest.raises(WrongOutput, match="held 0 of 5"):
        snapshot_s(seen=50, in_flight=5)


def test_nothing_is_left_of_a_recording(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    run_recorded(LOAD, lookups(LOAD.records))

    assert not list(tmp_path.iterdir())
