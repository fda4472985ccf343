"""Planted defects at level `live`: each is convicted where it is meant to show."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.history.verdict import Outcome
from harness.scenario.catalogue import catalogue
from harness.scenario.file import load
from harness.scenario.model import Scenario
from harness.scenario.outcome import RunOutcome
from harness.tests.whole_run import told
from tools.defects import IN_RUNS, mutant_named
from tools.defects.failovers import OF_FAILOVERS

pytestmark = [pytest.mark.real, pytest.mark.long]

MEANT = {
    name: meant
    for name, defect in IN_RUNS.items()
    if (meant := defect.scenario_at("live")) and defect not in OF_FAILOVERS
}
"""The defects that show at level live too with one server, and where; of two servers: `test_two_servers`."""

HIDES_THE_FAULT = {
    "stale-cache", "watermark-passes-key",
    "letters-vanish", "one-letter-vanishes", "value-for-a-letter", "failures-answered-with-nothing",
}  # fmt: skip
"""One never answers with the new rows, which would be the evidence that they changed; one stands still before; four
take away failures of calls, which would be the evidence.
"""

STAND_STILL = {
    "circuit-stays-open", "key-stuck-after-timeout", "wall-clock-timers", "watermark-passes-key",
    "late-connect-keeps-slot", "empty-answer-holds-key", "letters-by-plain-insert",
    "downstream-heard-once",
}  # fmt: skip
"""Their runs last as long as the scenario's budget; the kill matrix tries them at level sim."""

RUNS_AT_MOST = {"late-results": 20}
"""It needs an answer and its timeout in one turn of the loop, so a single run may not show it."""

Performed = Callable[..., RunOutcome]


def shipped(name: str) -> Scenario:
    return load(catalogue()[name])


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.soak] if name in STAND_STILL else [])
        for name in MEANT
        if "V23" not in IN_RUNS[name].convicted_by
    ],
)
def test_a_planted_defect_is_convicted_by_an_invariant_meant_for_it(performed: Performed, name: str) -> None:
    mutant = IN_RUNS[name]
    runs = (
        performed(shipped(MEANT[name]), mutant=mutant_named(name)) for _ in range(RUNS_AT_MOST.get(name, 1))
    )

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
    outcome = performed(shipped(MEANT[name]), draws=1, mutant=mutant_named(name))

    assert outcome.judgement.outcome is Outcome.VACUOUS, told(outcome)
    assert outcome.as_expected
    assert not any(fault.bites for fault in outcome.faults)
