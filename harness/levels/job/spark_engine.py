"""What is special about a Spark job: its driver, and what its checkpoint says.

A checkpoint's folder `offsets` names each batch before it runs, `commits` after it has run, and `sources/N` the files
of each batch. Only Spark writes them; they are read without Spark.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

import psutil

from harness.system.clock import Deadline, Flag
from harness.system.json_types import JsonView
from harness.system.process_identity import ProcessIdentity

_DRIVER: Final = "org.apache.spark.deploy.SparkSubmit"
_DEPTH_MAX: Final = 3
"""How deep below the state folder a checkpoint is looked for."""
_LOOK_S: Final = 0.02
_FIND_S: Final = 0.5
"""Intervals between two looks for a gap, and between two searches for checkpoints."""


def is_spark(family: Iterable[ProcessIdentity]) -> bool:
    """Whether one of these processes is the Java machine of a Spark driver."""
    return any(_DRIVER in _command(process.pid) for process in family)


def _command(pid: int) -> Sequence[str]:
    try:
        return psutil.Process(pid).cmdline()
    except (psutil.NoSuchProcess, psutil.AccessDenied):  # it has just ended, or is another user's
        return ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkEnd:
    """All that a source holds, in the words of a checkpoint: the names of its files, or a topic's end offsets."""

    files: Collection[str] = ()
    topic: str = ""
    offsets: Mapping[int, int] = field(default_factory=dict)
    """The offset of each partition."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkCheckpoint:
    """The checkpoint of one streaming query; each method reads the disk again."""

    folder: Path

    @property
    def batches(self) -> int:
        """How many batches have been planned."""
        newest = self._newest()
        return 0 if newest is None else newest + 1

    def in_gap(self, batch: int) -> bool:
        """Whether this batch has been planned and Spark's log has no commit of it yet."""
        return (self.folder / "offsets" / str(batch)).exists() and not self._has_committed(batch)

    def is_idle(self) -> bool:
        """Whether the newest batch that was planned has been committed, or there is none."""
        newest = self._newest()
        return newest is None or self._has_committed(newest)

    def files(self) -> set[str]:
        """The names of all files in the logs of the sources, also of those that Spark has compacted."""
        lines = [line for log in self.folder.glob("sources/*/*") for line in _objects(log)]
        paths = [str(line.get("path", "")) for line in lines]
        return {unquote(Path(urlsplit(path).path).name) for path in paths}

    def offsets(self, topic: str) -> Iterator[Mapping[int, int]]:
        """Where the newest batch ends in each partition of a topic; one for each source that reads it."""
        newest = self._newest()
        lines = [] if newest is None else _objects(self.folder / "offsets" / str(newest))
        for told in (line[topic] for line in lines if isinstance(line.get(topic), dict)):
            yield {int(part): int(offset) for part, offset in told.items()}

    def _newest(self) -> int | None:
        with suppress(FileNotFoundError):  # not there yet, or removed by the job
            names = [file.name for file in (self.folder / "offsets").iterdir()]
            return max((int(name) for name in names if name.isdecimal()), default=None)
        return None

    def _has_committed(self, batch: int) -> bool:
        return (self.folder / "commits" / str(batch)).exists()


def spark_is_behind(state: Path, end: SparkEnd) -> bool:
    """Whether a batch is on, or the checkpoints below `state` do not have all of `end`.

    A query that keeps no log of files, or reads no topic of that name, is judged by its batches alone.
    """
    checkpoints = find_checkpoints(state)
    if not all(checkpoint.is_idle() for checkpoint in checkpoints):
        return True
    logged = {name for checkpoint in checkpoints for name in checkpoint.files()}
    if logged and not logged.issuperset(end.files):
        return True
    read = [offsets for checkpoint in checkpoints for offsets in checkpoint.offsets(end.topic)]
    reached = (all(offsets.get(part, 0) >= at for part, at in end.offsets.items()) for offsets in read)
    return bool(read) and not any(reached)


def wait_for_gap(state: Path, *, batch: int, over: Flag) -> bool:
    """Waits until a query whose checkpoint is below `state` has planned `batch` and not committed it; False: `over`."""
    found, found_lately = list[SparkCheckpoint](), Deadline(0)
    while not over.is_set():
        if found_lately.passed:  # again, since a job may start a further query
            found, found_lately = find_checkpoints(state), Deadline(_FIND_S)
        if any(checkpoint.in_gap(batch) for checkpoint in found):
            return True
        over.wait(_LOOK_S)
    return False


def find_checkpoints(state: Path) -> list[SparkCheckpoint]:
    """The checkpoints below a folder, in the order of their paths."""
    found: list[Path] = []
    for path, folders, files in os.walk(state):  # which skips a folder that the job removes meanwhile
        here = Path(path)
        if "offsets" in folders and "metadata" in files:
            found.append(here)
        if len(here.relative_to(state).parts) == _DEPTH_MAX:
            folders.clear()
    return [SparkCheckpoint(folder=folder) for folder in sorted(found)]


def _objects(log: Path) -> Iterator[JsonView]:
    """The JSON objects of one of Spark's logs, whose first line is a version."""
    try:
        lines = log.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError):  # compacted away meanwhile, or a checksum
        return
    for line in lines:
        try:
            found = json.loads(line)
        except json.JSONDecodeError:
            continue
        if isinstance(found, dict):
            yield found
