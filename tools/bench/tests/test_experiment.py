"""The experiments: what a form must have done for its time to count, and what their page says of the numbers."""

from __future__ import annotations

import pytest

from harness.system.errors import HarnessError
from harness.tests.real_world import real_world
from tools.bench.experiment import ExperimentPlan, Times, experiment, times_of
from tools.bench.lookup_forms import FORMS, Asked, Emission

PLAN = ExperimentPlan(draws=2, records=2, at_once=2)
RECORDS = [Asked(key=0, service_ms=1), Asked(key=1, service_ms=2)]


def test_a_form_that_gives_every_record_its_row_gets_its_times() -> None:
    emissions = [
        Emission(key=1, name="customer 1", at_us=3_000),
        Emission(key=0, name="customer 0", at_us=5_000),
    ]

    assert times_of("unordered", RECORDS, emissions) == Times(total_ms=5.0, first_ms=3.0, mean_ms=4.0)


@pytest.mark.parametrize(
    "emissions",
    [
        [],
        [Emission(key=0, name="customer 0", at_us=1)],
        [Emission(key=0, name="customer 0", at_us=1), Emission(key=0, name="customer 0", at_us=2)],
        [Emission(key=0, name="customer 0", at_us=1), Emission(key=1, name="customer 0", at_us=2)],
    ],
    ids=["nothing", "one lost", "one doubled", "a row of another"],
)
def test_a_form_that_did_not_do_its_work_gets_no_time(emissions: list[Emission]) -> None:
    with pytest.raises(HarnessError, match="ordered gave"):
        times_of("ordered", RECORDS, emissions)


@pytest.mark.real
def test_all_four_forms_look_up_on_a_real_database() -> None:
    plan = ExperimentPlan(draws=3, records=6, at_once=3, service_ms=(1, 2))

    with real_world("local", proxy="own") as world:
        draws = experiment(world, plan, say=lambda _: None)

    assert [list(draw.of) for draw in draws] == [[*FORMS[turn:], *FORMS[:turn]] for turn in (3, 0, 1)]
    assert all(draw.of["synchronous"].total_ms >= sum(draw.service_ms) for draw in draws)
