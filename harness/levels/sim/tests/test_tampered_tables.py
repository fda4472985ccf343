"""A pass at level sim is a statement about the tables: a row that somebody changes after the run is named (T1)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from harness.database.table_editor import TableEditor
from harness.engine.level import Opening, RunRecord, RunSite
from harness.engine.perform import judged
from harness.history.event import Ack, Dead, Done, Effect, Event, Res, Row, Snap, TableRead
from harness.history.verdict import Outcome
from harness.levels.sim.level import SimulatedLevel
from harness.scenario.order import Order
from harness.system.errors import HarnessError
from harness.tests.tampered_tables import (
    SINKS,
    TABLES,
    UNSEEN,
    Case,
    Touching,
    cases,
    hides,
    names_the_row,
    scenario_with,
)
from tools.cases import each

EVERY_CASE = [pytest.param(sink, case, id=f"{sink}: {case.name}") for sink in SINKS for case in cases(sink)]


def recorded(sink: str, before_reading: Callable[[TableEditor], None] | None = None) -> RunRecord:
    order = Order(scenario=scenario_with(sink), level="sim", seed=3)
    site = RunSite(run_id="test", folder=Path(), before_reading=before_reading)
    with SimulatedLevel().open(Opening()) as play:
        record = play(order, site)
    assert isinstance(record, RunRecord)
    return record


@pytest.mark.parametrize("sink", SINKS)
def test_untouched_tables_pass_trust1(sink: str) -> None:
    assert judged(recorded(sink)).outcome is Outcome.PASS


@each(("sink", "case"), EVERY_CASE)
def test_a_changed_row_fails_the_run_and_is_named_trust1(sink: str, case: Case) -> None:
    touching = Touching(case.act, case.table)

    judgement = judged(recorded(sink, touching))

    names_the_row(judgement, case, touching.touched)


@each(("sink", "table"), [(sink, table) for sink, tables in UNSEEN.items() for table in tables])
def test_rows_that_change_places_do_not_show_where_no_order_is_claimed(sink: str, table: str) -> None:
    """Dead letters and the audit claim no order; with a key a replayed row keeps its place, so no order is left."""
    record = recorded(sink, Touching("swap", table))

    assert not (record.header.tables or {})[table].ordered
    assert judged(record).outcome is Outcome.PASS


@each("sink", SINKS)
@each(("table", "invariants"), TABLES.items())
def test_a_table_that_cannot_be_read_is_unknown_trust1(
    sink: str, table: str, invariants: tuple[str, ...]
) -> None:
    record = recorded(sink, hides(table))

    judgement = judged(record)

    unknown = {v.invariant for v in judgement.invariants if v.outcome is Outcome.UNKNOWN}
    assert judgement.outcome is Outcome.UNKNOWN
    assert unknown >= set(invariants)
    assert any(f"the table {table} could not be read" in threat for threat in record.threats)


@pytest.mark.parametrize("count", ["rows", "records", "doubled", "dead_letters"])
def test_a_count_by_sql_that_differs_from_the_rows_is_a_defect_of_the_harness_trust1(count: str) -> None:
    record = recorded("atomic")
    wrong = {**record.accounting, count: record.accounting[count] + 1}

    with pytest.raises(HarnessError, match=f"SQL counts {wrong[count]} {count.replace('_', ' ')}"):
        judged(replace(record, accounting=wrong))


@pytest.mark.parametrize("count", ["missing", "doubled", "disordered"])
def test_a_pass_beside_a_count_of_wrong_rows_is_a_defect_of_the_harness_trust1(count: str) -> None:
    record = recorded("atomic")

    with pytest.raises(HarnessError, match=f"the verdict is a pass, and SQL counts 1 {count}"):
        judged(replace(record, accounting={**record.accounting, count: 1}))


def test_what_is_counted_beside_a_verdict_counts_every_record_trust1() -> None:
    counts = recorded("atomic", Touching("delete", "output")).accounting

    assert counts == {
        "offered": 24, "rows": 21, "records": 21, "doubled": 0, "epochs": counts["epochs"], "dead_letters": 2,
        "disordered": 0, "missing": 1,
    }  # fmt: skip


def of_kind(events: list[Event], kind: type) -> list[Event]:
    return [event for event in events if type(event) is kind]


@pytest.mark.parametrize("sink", SINKS)
def test_every_row_is_in_the_history_with_the_count_of_the_database(sink: str) -> None:
    events = list(recorded(sink).events)

    rows = [(row.table, row.id) for row in events if isinstance(row, Row)]
    reads = {read.table: read.rows for read in events if isinstance(read, TableRead)}
    of_table = {table: sum(name == table for name, _ in rows) for table in ("output", "dead_letter")}
    assert reads == {**of_table, "audit": len(of_kind(events, Effect))}
    assert reads["output"] == 22
    assert reads["dead_letter"] == 2


@pytest.mark.parametrize("sink", SINKS)
def test_a_dead_letter_has_its_error_in_the_table_and_no_snapshot_holds_it_trust5(sink: str) -> None:
    events = list(recorded(sink).events)
    dead = {event.id: event.n for event in events if isinstance(event, Dead)}
    errors = {event.id: event.error for event in events if isinstance(event, Res) and event.final}

    letters = {row.id: row.error for row in events if isinstance(row, Row) and row.table == "dead_letter"}
    held = {
        (snap.n, element["id"])
        for snap in events
        if isinstance(snap, Snap)
        for element in snap.elements
        if "id" in element
    }

    assert letters == {record: errors[record] for record in dead}
    assert len(letters) == 2
    assert not any(n > dead[record] for n, record in held if record in dead)


@pytest.mark.parametrize("sink", ["two-phase", "idempotent"])
def test_the_coordinator_takes_an_acknowledgement_of_each_subtask_before_it_completes_trust3(
    sink: str,
) -> None:
    events = list(recorded(sink).events)
    done = of_kind(events, Done)

    assert done
    for completion in done:
        assert isinstance(completion, Done)
        acks = [ack for ack in events if isinstance(ack, Ack) and ack.c == completion.c]
        assert {ack.s for ack in acks} == {0, 1}
        assert all(ack.n < completion.n for ack in acks)
