"""A pass at level live is a statement about the server's tables: a row changed after the run is named (T1)."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.history.verdict import Outcome
from harness.levels.live.tests.conftest import Performed
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
from harness.tests.whole_run import told, whole_run
from harness.world.world import World

pytestmark = pytest.mark.real

EVERY_CASE = [
    pytest.param(sink, case, id=f"{sink}: {case.name}", marks=() if sink == SINKS[0] else pytest.mark.long)
    for sink in SINKS
    for case in cases(sink)
]
"""The other sinks' cases take minutes."""


@pytest.mark.parametrize("sink", SINKS)
def test_untouched_tables_pass_trust1(performed: Performed, sink: str) -> None:
    outcome, _ = performed(scenario_with(sink))

    assert outcome.judgement.outcome is Outcome.PASS, told(outcome)
    assert outcome.accounting["dead_letters"] == 2
    assert outcome.accounting["missing"] == 0


@pytest.mark.parametrize(("sink", "case"), EVERY_CASE)
def test_a_changed_row_fails_the_run_and_is_named_trust1(
    live_world: World, tmp_path: Path, sink: str, case: Case
) -> None:
    touching = Touching(case.act, case.table)

    outcome = whole_run(scenario_with(sink), world=live_world, within=tmp_path, before_reading=touching)

    names_the_row(outcome.judgement, case, touching.touched)


@pytest.mark.parametrize(
    ("sink", "table"), [(sink, table) for sink, tables in UNSEEN.items() for table in tables]
)
def test_rows_that_change_places_do_not_show_where_no_order_is_claimed(
    live_world: World, tmp_path: Path, sink: str, table: str
) -> None:
    """Dead letters and the audit claim no order; with a key a replayed row keeps its place, so no order is left."""
    swapping = Touching("swap", table)

    outcome = whole_run(scenario_with(sink), world=live_world, within=tmp_path, before_reading=swapping)

    assert outcome.judgement.outcome is Outcome.PASS, told(outcome)


@pytest.mark.parametrize(("table", "invariants"), TABLES.items())
def test_a_table_that_cannot_be_read_is_unknown_trust1(
    live_world: World, tmp_path: Path, table: str, invariants: tuple[str, ...]
) -> None:
    outcome = whole_run(
        scenario_with("atomic"), world=live_world, within=tmp_path, before_reading=hides(table)
    )

    unknown = {v.invariant for v in outcome.judgement.invariants if v.outcome is Outcome.UNKNOWN}
    assert outcome.judgement.outcome is Outcome.UNKNOWN, told(outcome)
    assert unknown >= set(invariants)
    assert any(f"the table {table} could not be read" in threat for threat in outcome.threats)
