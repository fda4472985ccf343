"""The catalogue: what is shipped is sound and covers what it must, and words find their files."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from harness.faults.registry import FAULTS
from harness.scenario.catalogue import JOBS, catalogue, catalogue_folder, folders, resolve
from harness.scenario.file import load, load_many
from harness.scenario.model import At, Fault, Scenario
from harness.system.errors import NothingRan, UsageError
from harness.tests.scenario_drafts import SOUND


@cache
def shipped() -> dict[str, Scenario]:
    return {path.stem: load(path) for path in catalogue().values()}


def test_a_shipped_scenario_is_named_like_its_file() -> None:
    assert [name for name, scenario in shipped().items() if scenario.scenario != name] == []


def test_a_shipped_scenario_cannot_pass_on_little() -> None:
    """V23: all records, half of the checkpoints (one, where their store fails), and a restore where a worker dies."""
    for name, scenario in shipped().items():
        workload, expects = scenario.workload, scenario.expects
        deadly = any(_is_deadly(fault) for fault in scenario.faults)
        stored = any("store" in fault.abilities for fault in scenario.faults)

        assert expects.records == workload.records * workload.subtasks, name
        assert expects.checkpoints is not None, name
        assert expects.checkpoints >= (1 if stored else workload.checkpoints // 2), name
        assert bool(expects.restores) or not deadly, name


def _is_deadly(fault: Fault) -> bool:
    """Whether an attempt ends by it, and the next goes on from a checkpoint."""
    return fault.do == "kill_worker" or getattr(fault, "how", None) == "kills"


def test_a_shipped_scenario_is_really_concurrent() -> None:
    """On average at least three lookups in flight in each subtask, by themselves or by what is done to them."""
    for name, scenario in shipped().items():
        if all(fault.by == "process" for fault in scenario.faults):
            assert scenario.workload.rate * scenario.workload.service / 2 / 1000 >= 3, name


def test_faults_by_time_begin_while_the_source_is_read() -> None:
    """Afterwards there is nothing left to disturb."""
    for name, scenario in shipped().items():
        idle_ms = sum(fault.lasts_ms or 0 for fault in scenario.faults if fault.do == "idle_input")
        source_ms = scenario.workload.records * 1000 // scenario.workload.rate + idle_ms
        for fault in scenario.faults:
            if isinstance(fault.when, At):
                assert fault.when.at < source_ms, (name, fault.id)


def test_every_fault_has_a_scenario() -> None:
    assert {fault.do for scenario in shipped().values() for fault in scenario.faults} == {
        name for name, kind in FAULTS.items() if kind.levels
    }


def test_three_faults_overlap_in_one_checkpoint_interval() -> None:
    """They begin after the first checkpoint and, counting calls, before the second barrier's record."""
    scenario = shipped()["three-faults-in-one-interval"]
    workload = scenario.workload
    assert workload.checkpoint_every is not None
    per_watermark = workload.watermark_every + 1
    second_barrier = 2 * workload.checkpoint_every * workload.watermark_every // per_watermark

    slow, cut, kill = (fault.when.model_dump(exclude_none=True) for fault in scenario.faults)

    assert slow["checkpoint"] == 1
    assert workload.checkpoint_every < cut["call"] < kill["hit"] < second_barrier


def test_the_folder_lies_beside_the_package() -> None:
    assert (catalogue_folder() / "calm" / "calm.yaml").is_file()


def test_every_file_of_every_folder_has_a_name_of_its_own() -> None:
    files = [*catalogue_folder().rglob("*.yaml"), *catalogue_folder().rglob("*.yml")]

    assert len(catalogue()) == sum(path.parent.name != JOBS for path in files)


def test_a_folder_of_the_catalogue_goes_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for path in ("calm.yaml", "network/cut.yaml", "network/deep/slow.yaml"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(SOUND)
    monkeypatch.setattr("harness.scenario.catalogue.catalogue_folder", lambda: tmp_path)

    assert [path.stem for path in resolve(["network"])] == ["cut", "slow"]
    assert list(catalogue()) == ["calm", "cut", "slow"]
    assert list(folders().values()) == ["", "network", "network/deep"]
    with pytest.raises(UsageError, match="did you mean `network`"):
        resolve(["netwrk"])


def test_all_is_the_whole_catalogue() -> None:
    assert [scenario.scenario for scenario in load_many(["all"])] == list(catalogue())


def test_a_folder_is_read_without_the_job_scenarios_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(catalogue_folder().parent)

    assert resolve([catalogue_folder().name]) == resolve([f"./{catalogue_folder().name}"])
    assert {path.stem for path in resolve([catalogue_folder().name])} == set(catalogue())


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


def test_a_file_that_is_there_with_another_ending_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "outage.yaml").touch()
    monkeypatch.chdir(tmp_path)

    with pytest.raises(
        UsageError, match="no scenario, file or folder `outage.yml`; did you mean `outage.yaml`"
    ):
        resolve(["outage.yml"])
