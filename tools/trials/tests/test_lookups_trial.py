"""Each lookup of a stranger is told as it should be, at level live; the sweep does the same at level sim."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.engine.level import Observer, Stop
from harness.engine.open_levels import OpenLevels, StagePlan, open_levels
from harness.levels import level_named
from harness.scenario.order import new_run_id
from harness.tests.real_world import require_world
from harness.world.settings import WorldSettings
from tools.trials.lookups_trial import STRANGERS, Stranger, is_told, said


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OpenLevels]:
    require_world("local", "auto", settings=WorldSettings.from_environment())
    folder: Path = tmp_path_factory.mktemp("strangers")
    plan = StagePlan(run_id=new_run_id(), report=folder, levels=level_named, world="local", keep="never")
    with open_levels(plan, observer=Observer(), stop=Stop()) as opened:
        yield opened


@pytest.mark.real
@pytest.mark.long
@pytest.mark.parametrize(
    "stranger",
    [stranger for stranger in STRANGERS if "live" in stranger.levels],
    ids=lambda stranger: f"{stranger.lookup}-{stranger.scenario}-{'-'.join(stranger.told) or 'passes'}",
)
def test_a_lookup_of_a_stranger_is_told_as_it_should_be_u6(stage: OpenLevels, stranger: Stranger) -> None:
    outcome = stage.run(stranger.order("live", 1))

    assert is_told(stranger, outcome), said(outcome)
