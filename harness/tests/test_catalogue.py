"""The catalogue: what is shipped is sound and covers what it must, and words find their files."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from harness.catalogue import catalogue, catalogue_folder, resolve
from harness.errors import NothingRan, UsageError
from harness.scenario import At, FaultName, Scenario
from harness.scenario_file import load, load_many
from harness.tests.scenario_drafts import SOUND

SHIPPED = {path.stem: load(path) for path in catalogue().values()}


@pytest.mark.parametrize("name", SHIPPED)
def test_a_shipped_scenario_is_named_like_its_file(name: str) -> None:
    assert SHIPPED[name].scenario == name


@pytest.mark.parametrize("scenario", SHIPPED.values(), ids=SHIPPED)
def test_a_shipped_scenario_cannot_pass_on_little(scenario: Scenario) -> None:
    """V23: all records, most of the checkpoints, and a restore where a worker dies."""
    workload, expects = scenario.workload, scenario.expects
    killed = any(fault.do == "kill_worker" for fault in scenario.faults)

    assert expects.records == workload.records * workload.subtasks
    assert expects.checkpoints is not None
    assert expects.checkpoints >= workload.checkpoints * 3 // 4
    assert bool(expects.restores) == killed


@pytest.mark.parametrize("scenario", SHIPPED.values(), ids=SHIPPED)
def test_a_shipped_scenario_is_really_concurrent(scenario: Scenario) -> None:
    """On average at least three lookups in flight in each subtask, so that they can overtake each other."""
    assert scenario.workload.rate * scenario.workload.service / 2 / 1000 >= 3


@pytest.mark.parametrize("scenario", SHIPPED.values(), ids=SHIPPED)
def test_faults_by_time_begin_in_the_middle_of_the_source(scenario: Scenario) -> None:
    source_ms = scenario.workload.records * 1000 // scenario.workload.rate

    for fault in scenario.faults:
        if isinstance(fault.when, At):
            assert source_ms * 0.2 <= fault.when.at <= source_ms * 0.6


def test_every_fault_has_a_scenario() -> None:
    assert {fault.do for scenario in SHIPPED.values() for fault in scenario.faults} == set(
        get_args(FaultName)
    )


def test_three_faults_overlap_in_one_checkpoint_interval() -> None:
    """They begin after the first checkpoint and, counting calls, before the second barrier's record."""
    scenario = SHIPPED["three-faults-in-one-interval"]
    workload = scenario.workload
    per_watermark = workload.watermark_every + 1
    second_barrier = 2 * workload.checkpoint_every * workload.watermark_every // per_watermark

    slow, cut, kill = (fault.when.model_dump(exclude_none=True) for fault in scenario.faults)

    assert slow["checkpoint"] == 1
    assert workload.checkpoint_every < cut["call"] < kill["hit"] < second_barrier


def test_the_folder_lies_beside_the_package() -> None:
    assert (catalogue_folder() / "calm.yaml").is_file()


def test_all_is_the_whole_catalogue() -> None:
    assert [scenario.scenario for scenario in load_many(["all"])] == list(catalogue())


def test_names_paths_and_folders_mix_and_each_file_comes_once(tmp_path: Path) -> None:
    own = tmp_path / "deep" / "own.yml"
    own.parent.mkdir()
    own.write_text(SOUND)
    (tmp_path / ".hidden.yaml").write_text("no scenario")
    calm = catalogue()["calm"]

    assert resolve(["calm", tmp_path, calm, str(own)]) == [calm, own]


@pytest.mark.parametrize(
    ("name", "nearest"),
    [
        ("clam", "did you mean `calm`?"),
        ("scenarios/kill-after-comit.yaml", "did you mean `kill-after-commit`?"),
        ("three-faults", "did you mean `three-faults-in-one-interval`?"),
    ],
)
def test_an_unknown_name_is_told_with_the_nearest(name: str, nearest: str) -> None:
    with pytest.raises(UsageError) as raised:
        resolve([name])

    assert f"`{name}`" in raised.value.what
    assert nearest in raised.value.what


def test_all_unknown_names_are_told_at_once() -> None:
    with pytest.raises(UsageError) as raised:
        load_many(["one-thing", "calm", "another-thing"])

    assert "`one-thing`" in raised.value.what
    assert "`another-thing`" in raised.value.what


def test_a_folder_without_scenarios_means_that_nothing_ran(tmp_path: Path) -> None:
    with pytest.raises(NothingRan, match="no scenario file"):
        load_many([tmp_path])


def test_no_name_at_all_means_that_nothing_ran() -> None:
    with pytest.raises(NothingRan):
        load_many([])
