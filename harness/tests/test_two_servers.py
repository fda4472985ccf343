"""Claims about whole runs with two servers: the reference passes, and each client that is wrong about them does not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.history.verdict import Outcome
from harness.scenario.catalogue import catalogue
from harness.scenario.file import load
from harness.tests.real_world import real_world
from harness.tests.whole_run import told, whole_run
from harness.world.mysql_server import REPLICA
from harness.world.proxy_program import PACKETS
from harness.world.world import World
from tools.defects import IN_RUNS, mutant_named
from tools.defects.failovers import OF_FAILOVERS

pytestmark = [pytest.mark.real, pytest.mark.long, pytest.mark.soak, pytest.mark.timeout(300)]
SCENARIOS = sorted({str(defect.scenario) for defect in OF_FAILOVERS})


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with real_world("local", proxy="own", needs=frozenset({REPLICA, PACKETS})) as opened:
        yield opened


@pytest.mark.parametrize("name", SCENARIOS)
def test_the_reference_has_each_result_once_whatever_the_servers_do(
    world: World, tmp_path: Path, name: str
) -> None:
    outcome = whole_run(load(catalogue()[name]), world=world, within=tmp_path)

    assert outcome.judgement.outcome is Outcome.PASS, told(outcome)
    assert all(fault.bites for fault in outcome.faults)
    assert outcome.accounting["missing"] == 0
    (substrate,) = [one for one in outcome.judgement.invariants if one.invariant == "V22"]
    assert substrate.outcome is Outcome.PASS


@pytest.mark.parametrize("name", [defect.name for defect in OF_FAILOVERS])
def test_a_client_that_is_wrong_about_them_is_convicted_and_not_excused(
    world: World, tmp_path: Path, name: str
) -> None:
    defect = IN_RUNS[name]
    scenario = load(catalogue()[str(defect.scenario)])

    outcome = whole_run(scenario, world=world, within=tmp_path, mutant=mutant_named(name))

    assert outcome.as_expected, told(outcome)
