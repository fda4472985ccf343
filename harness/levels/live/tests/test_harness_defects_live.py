"""At level live too a defect of the harness is found, by a canary or by a cross-check, and never passes (T9)."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.engine.canaries_in_world import refuse_blind_world
from harness.history.verdict import Outcome
from harness.levels.live.tests.faulty_scenario import faulty
from harness.system.errors import HarnessError
from harness.tests.harness_defects import IN_A_RUN, IN_THE_DATABASE
from harness.tests.whole_run import told, whole_run
from harness.world.world import World

pytestmark = pytest.mark.real

SPIKE = {"id": "spike", "do": "latency", "link": "lookups", "direction": "down", "delay": "150ms",
         "when": {"at": "200ms"}, "for": "600ms"}  # fmt: skip


def test_an_honest_harness_sees_every_canary_of_the_database_trust9(live_world: World) -> None:
    refuse_blind_world(live_world, level="live")
    refuse_blind_world(live_world, level="live")  # and leaves nothing behind


@pytest.mark.parametrize("part", IN_THE_DATABASE)
def test_a_defect_on_the_way_through_the_database_is_found_before_a_run_trust9(
    part: str, live_world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant, says = IN_THE_DATABASE[part]
    plant(monkeypatch)

    with pytest.raises(HarnessError, match=says):
        refuse_blind_world(live_world, level="live")


def test_an_honest_run_has_no_contradiction_trust9(live_world: World, tmp_path: Path) -> None:
    outcome = whole_run(faulty(SPIKE, levels=["live"]), world=live_world, within=tmp_path)

    assert outcome.judgement.outcome is Outcome.PASS, told(outcome)


@pytest.mark.parametrize("part", IN_A_RUN)
def test_a_defect_of_the_harness_ends_a_live_run_with_an_error_trust9(
    part: str, live_world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant, says = IN_A_RUN[part]
    plant(monkeypatch)

    with pytest.raises(HarnessError, match=says):
        whole_run(faulty(SPIKE, levels=["live"]), world=live_world, within=tmp_path)
