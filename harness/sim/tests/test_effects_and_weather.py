"""What lookups meet and what they write: bad luck ends, rows are written once, late attempts write nothing."""

from __future__ import annotations

import pytest

from harness.choices import Draw
from harness.database.epoch import Fenced
from harness.levels.sim.hub import Hub
from harness.levels.sim.buffer_journal import Tape
from harness.sim.database import Database
from harness.sim.effects import EffectTable
from harness.sim.situation import Disturbance, Lookups
from harness.sim.weather import Weather


def _table() -> tuple[EffectTable, Database]:
    draw = Draw(1, "test")
    database = Database(Tape(Hub(draw, limit_ms=1, steps_max=1)), draw, customers={})
    return EffectTable(database), database


def test_a_row_is_written_once_for_its_key() -> None:
    table, database = _table()
    database.fence(0).token = 1

    for _ in range(2):
        table.write(subtask=0, token=1, id=7, results=["x"])

    assert len(database.effects) == 1


def test_an_attempt_writes_nothing_after_a_later_one_has_taken_over() -> None:
    table, database = _table()
    database.fence(0).token = 2

    with pytest.raises(Fenced, match="attempt 1 of subtask 0 is fenced: attempt 2"):
        table.write(subtask=0, token=1, id=7, results=["x"])

    assert not database.effects


def test_a_record_has_bad_luck_so_often_and_no_more() -> None:
    lookups = Lookups(latency_ms=(1, 1), error_share=50, loss_share=50, unlucky_max=3)
    weather = Weather(lookups, Draw(1, "weather"))

    fates = [weather.fate(7, now_ms=0) for _ in range(10)]

    assert all(fate.error or fate.lost for fate in fates[:3])
    assert not any(fate.error or fate.lost for fate in fates[3:])


def test_a_lock_holds_a_call_until_it_is_released() -> None:
    weather = Weather(Lookups(latency_ms=(1, 1)), Draw(1, "weather"))
    lock = Disturbance(name="lock", kind="lock", at_call=1, lasts_ms=50)

    weather.begins(lock, now_ms=100)

    assert weather.fate(7, now_ms=120).more_ms == 30
    assert weather.ends(lock) == 1
    assert weather.fate(7, now_ms=150).more_ms == 0
