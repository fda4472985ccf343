"""Planted defects at level `live`: each is convicted where it is meant to show, and the reference passes there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from harness.defects import IN_RUNS
from harness.defects.failovers import OF_FAILOVERS
from harness.runs.outcome import RunOutcome
from harness.scenario.catalogue import catalogue
from harness.scenario.file import load
from harness.scenario.model import Scenario
from harness.tests.whole_run import links_are_free, told, whole_run
from harness.verdict import Outcome
from harness.world.world import World

pytestmark = [pytest.mark.real, pytest.mark.long]

MEANT = {
    name: meant
    for name, defect in IN_RUNS.items()
    if (meant := defect.scenario_at("live")) and defect not in OF_FAILOVERS
}
"""The defects that show at level live too with one server, and where; of two servers: `test_two_servers`."""

HIDES_THE_FAULT = {"stale-cache"}
"""It never answers with the new rows, which would be the evidence that they changed."""

RUNS_AT_MOST = {"late-results": 20}
"""It needs an answer and its timeout in one turn of the loop, so a single run may not show it."""

Performed = Callable[..., RunOutcome]


@pytest.fixture
def performed(world: World, tmp_path: Path) -> Iterator[Performed]:
    """Runs a scenario in the shared world; afterwards nothing of it may act on a link."""

    def run(scenario: Scenario, **order: Any) -> RunOutcome:
        return whole_run(scenario, world=world, within=tmp_path, **order)

    yield run
    assert links_are_free(world)


def shipped(name: str) -> Scenario:
    return load(catalogue()[name])


# Those of the gate pass in this tier anyway, as the files that they are.
@pytest.mark.parametrize(
    "name", [name for name in sorted(set(MEANT.values())) if "gate" not in shipped(name).tags]
)
def test_the_reference_passes_where_its_mutants_are_meant_to_fail(performed: Performed, name: str) -> None:
    outcome = performed(shipped(name))

    assert outcome.judgement.outcome is Outcome.PASS, told(outcome)
    assert outcome.as_expected
    assert outcome.error is None
    assert all(fault.bites and fault.evidence for fault in outcome.faults)
    wrong = {name: outcome.accounting.get(name, 0) for name in ("doubled", "missing", "disordered")}
    assert wrong == {"doubled": 0, "missing": 0, "disordered": 0}


@pytest.mark.parametrize("name", [name for name in MEANT if "V23" not in IN_RUNS[name].convicted_by])
def test_a_planted_defect_is_convicted_by_an_invariant_meant_for_it(performed: Performed, name: str) -> None:
    mutant = IN_RUNS[name]
    runs = (performed(shipped(MEANT[name]), mutant=name) for _ in range(RUNS_AT_MOST.get(name, 1)))

    for outcome in runs:
        if outcome.judgement.outcome is Outcome.FAIL:
            break

    convicted = {verdict.invariant for verdict in outcome.judgement.convicted()}
    assert outcome.judgement.outcome is Outcome.FAIL, told(outcome)
    assert convicted & set(mutant.convicted_by), told(outcome)
    assert outcome.as_expected
    assert name in HIDES_THE_FAULT or all(fault.bites for fault in outcome.faults)


@pytest.mark.parametrize("name", [name for name in MEANT if "V23" in IN_RUNS[name].convicted_by])
def test_a_harness_whose_faults_touch_nobody_is_vacuous(performed: Performed, name: str) -> None:
    outcome = performed(shipped(MEANT[name]), mutant=name)

    assert outcome.judgement.outcome is Outcome.VACUOUS, told(outcome)
    assert outcome.as_expected
    assert not any(fault.bites for fault in outcome.faults)
