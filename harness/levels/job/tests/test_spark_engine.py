"""What a Spark job's processes and its checkpoint tell, without Spark."""

from __future__ import annotations

import os
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from harness.levels.job import spark_engine
from harness.levels.job.spark_engine import (
    SparkEnd,
    find_checkpoints,
    is_spark,
    spark_is_behind,
)
from harness.system.process_identity import this_process


class Checkpoint:
    """A checkpoint as Spark writes it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in ("offsets", "commits", "sources/0"):
            (folder / name).mkdir(parents=True)
        (folder / "metadata").write_text('{"id":"22ba3ae8"}')

    def plans(self, batch: int, *, source: str) -> None:
        (self.folder / "offsets" / str(batch)).write_text(f'v1\n{{"batchWatermarkMs":0}}\n{source}')

    def logs(self, name: str, *files: str) -> None:
        lines = [f'{{"path":"file:///in/{file}","timestamp":1,"batchId":0}}' for file in files]
        (self.folder / "sources" / "0" / name).write_text("\n".join(["v1", *lines]))

    def commits(self, batch: int) -> None:
        (self.folder / "commits" / str(batch)).write_text('v1\n{"nextBatchWatermarkMs":0}')


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    return Checkpoint(tmp_path / "checkpoint")


def test_a_plain_process_is_no_spark() -> None:
    assert not is_spark([this_process()])


def test_a_batch_is_in_the_gap_from_its_plan_to_its_commit(checkpoint: Checkpoint, tmp_path: Path) -> None:
    (found,) = find_checkpoints(tmp_path)
    before = found.in_gap(0)
    checkpoint.plans(0, source='{"logOffset":0}')
    between = found.in_gap(0)
    checkpoint.commits(0)

    assert (before, between, found.in_gap(0)) == (False, True, False)


def test_the_gap_of_a_query_that_is_started_later_is_waited_for_too(
    checkpoint: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark_engine, "_FIND_S", 0.0)
    checkpoint.plans(0, source='{"logOffset":0}')
    checkpoint.commits(0)

    class Starting(Event):
        """Starts a second query while the first one is looked at; gives up after some looks."""

        looks = 0

        def wait(self, timeout: float | None = None) -> bool:
            del timeout
            self.looks += 1
            if not (tmp_path / "later").exists():
                Checkpoint(tmp_path / "later").plans(3, source='{"logOffset":0}')
            if self.looks > 3:
                self.set()
            return self.is_set()

    assert spark_engine.wait_for_gap(tmp_path, batch=3, over=Starting())
    assert not spark_engine.wait_for_gap(tmp_path, batch=4, over=Starting())


def test_a_folder_that_a_job_removes_meanwhile_hides_no_checkpoint(
    checkpoint: Checkpoint, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone, scandir = tmp_path / "a-while", os.scandir
    gone.mkdir()

    def removing(path: str | os.PathLike[str] = ".") -> Any:
        if Path(path) == gone:
            gone.rmdir()
        return scandir(path)

    monkeypatch.setattr(os, "scandir", removing)

    assert [one.folder for one in find_checkpoints(tmp_path)] == [checkpoint.folder]
    assert not gone.exists()


def test_a_query_is_behind_while_a_batch_is_on_or_a_file_is_in_none(
    checkpoint: Checkpoint, tmp_path: Path
) -> None:
    end = SparkEnd(files=["a.json", "b c.json"])
    checkpoint.plans(0, source='{"logOffset":0}')
    checkpoint.logs("0", "a.json")
    is_on = spark_is_behind(tmp_path, SparkEnd(files=["a.json"]))
    checkpoint.commits(0)
    lacks_one = spark_is_behind(tmp_path, end)
    checkpoint.plans(1, source='{"logOffset":1}')
    checkpoint.logs("1.compact", "a.json", "b%20c.json")
    checkpoint.commits(1)

    assert (is_on, lacks_one, spark_is_behind(tmp_path, end)) == (True, True, False)


def test_a_query_of_a_topic_is_behind_until_each_partition_is_read(
    checkpoint: Checkpoint, tmp_path: Path
) -> None:
    end = SparkEnd(topic="records", offsets={0: 5, 1: 7})
    checkpoint.plans(0, source='{"records":{"0":5,"1":6}}')
    checkpoint.commits(0)
    behind = spark_is_behind(tmp_path, end)
    checkpoint.plans(1, source='{"records":{"0":5,"1":7}}')
    checkpoint.commits(1)

    assert (behind, spark_is_behind(tmp_path, end)) == (True, False)


def test_a_query_that_keeps_no_log_of_its_source_is_judged_by_its_batches(
    checkpoint: Checkpoint, tmp_path: Path
) -> None:
    checkpoint.plans(0, source='{"from":"elsewhere"}')
    is_on = spark_is_behind(tmp_path, SparkEnd(files=["a.json"]))
    checkpoint.commits(0)

    assert (is_on, spark_is_behind(tmp_path, SparkEnd(files=["a.json"]))) == (True, False)
