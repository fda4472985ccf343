"""Odd rows hold what a careless client alters, and the same at every level (T6)."""

from __future__ import annotations

from typing import Any

from harness.levels.sim.run import customers
from harness.scenario.workloads.lookups import customer_rows
from harness.scenario.workloads.shape import with_values_like
from harness.tests.scenario_drafts import sound
from tools.cases import each

ROWS = with_values_like([[key, "", "", 0] for key in range(200)], "odd")


@each(
    "lossy",
    [
        lambda value: value.encode("latin-1", "replace") if isinstance(value, str) else value,
        lambda value: value.strip() if isinstance(value, str) else value,
        lambda value: value or "",
        lambda value: value % 2**32 if isinstance(value, int) else value,
        lambda value: float(value) if isinstance(value, int) else value,
        lambda value: abs(value) if isinstance(value, int) else value,
    ],
    ids=["character set", "white space", "NULL", "32 bits", "what a double lacks", "sign"],
)
def test_a_value_of_an_odd_row_changes_by_what_a_careless_client_loses_trust6(lossy: Any) -> None:
    assert any(
        lossy(value) != value or type(lossy(value)) is not type(value) for row in ROWS for value in row[1:]
    )


def test_every_odd_text_and_number_occurs_in_each_column_and_no_name_is_null_trust6() -> None:
    names, cities = {row[1] for row in ROWS}, {row[2] for row in ROWS}

    assert cities == names | {None}
    assert len({row[3] for row in ROWS}) == 14
    assert all(len(name) <= 200 for name in names)


def test_the_odd_rows_of_a_seed_are_the_same_in_a_database_and_at_sim_trust6() -> None:
    scenario = sound()
    workload = scenario.workload.model_copy(update={"rows_like": "odd", "keys": 30})

    simulated = customers(scenario.model_copy(update={"workload": workload}), 7)

    assert simulated == customer_rows(keys=range(30), seed=7, like="odd")
