"""The reference at level `live` passes where planted defects are meant to be convicted."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.history.verdict import Outcome
from harness.scenario.catalogue import catalogue
from harness.scenario.file import load
from harness.scenario.outcome import RunOutcome
from harness.tests.whole_run import told
from tools.defects import IN_RUNS
from tools.defects.failovers import OF_FAILOVERS

pytestmark = [pytest.mark.real, pytest.mark.long]

WHERE = sorted(
    {
        meant
        for defect in IN_RUNS.values()
        if defect not in OF_FAILOVERS and (meant := defect.scenario_at("live"))
    }
)
Performed = Callable[..., RunOutcome]


@pytest.mark.parametrize("name", WHERE)
def test_the_reference_passes_where_its_mutants_are_meant_to_fail(performed: Performed, name: str) -> None:
    scenario = load(catalogue()[name])
    if "gate" in scenario.tags:
        pytest.skip("a scenario of the gate is run in tier real as the file that it is")

    outcome = performed(scenario)

    assert outcome.judgement.outcome is Outcome.PASS, told(outcome)
    assert outcome.as_expected
    assert outcome.error is None
    assert all(fault.bites and fault.evidence for fault in outcome.faults)
    wrong = {name: outcome.accounting.get(name, 0) for name in ("doubled", "missing", "disordered")}
    assert wrong == {"doubled": 0, "missing": 0, "disordered": 0}
