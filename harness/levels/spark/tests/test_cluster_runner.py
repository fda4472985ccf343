"""A cluster's runner and its executors, as far as they can be seen without Spark."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.levels.spark import cluster_run, executors
from harness.system.errors import WorldError

GONE = WorldError("a worker is gone", fix="look at its log")


class _BrokenCluster:
    def mend(self) -> None:
        raise GONE


def test_a_run_that_could_not_begin_leaves_the_cluster_to_the_next_one(tmp_path: Path) -> None:
    cluster: Any = _BrokenCluster()
    runner = cluster_run.ClusterRunner(
        master="spark://127.0.0.1:1", folder=tmp_path, note_process=lambda pid: None, cluster=cluster
    )
    plan: Any = SimpleNamespace(sut="reference", scenario={"faults": []}, folder=str(tmp_path))

    for _ in range(2):
        with pytest.raises(WorldError) as failed:
            runner.start(plan, subtasks=1, logs=tmp_path)

        assert failed.value is GONE


def test_a_folder_beside_the_environment_is_a_users_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    inside, beside = tmp_path / "env" / "lib", tmp_path / "env-of-mine"
    for folder in (inside, beside):
        folder.mkdir(parents=True)
    sent: list[Path] = []

    def archive(folder: Path, *, modules_in: list[Path], **_: object) -> Path:
        del folder
        sent.extend(modules_in)
        raise GONE

    monkeypatch.setattr(sys, "prefix", str(tmp_path / "env"))
    monkeypatch.setattr(cluster_run, "code_archive", archive)
    runner = cluster_run.ClusterRunner(
        master="spark://127.0.0.1:1", folder=tmp_path, note_process=lambda pid: None
    )
    plan: Any = SimpleNamespace(
        sut="mine:lookup", scenario={"faults": []}, folder=str(tmp_path), path=[str(inside), str(beside)]
    )

    with pytest.raises(WorldError):
        runner.start(plan, subtasks=1, logs=tmp_path)

    assert sent == [beside]


def test_a_master_with_a_second_one_is_reached_by_the_first(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, str] = {}

    @contextmanager
    def session(*, settings: Mapping[str, str], **_: object) -> Iterator[Any]:
        seen.update(settings)
        yield SimpleNamespace(sparkContext=SimpleNamespace(applicationId=""))

    monkeypatch.setattr(executors, "spark_session", session)
    monkeypatch.setattr(executors, "code_archive", lambda folder, **_: folder / "code.zip")

    with executors.open_executors("spark://localhost:7077,localhost:7078"):
        pass

    assert (
        "spark.driver.host" not in seen
    )  # this machine's, not asked of a host called `localhost:7077,localhost`
    assert "spark.archives" in seen
