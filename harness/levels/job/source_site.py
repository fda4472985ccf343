"""What every kind of source has in common: what it gets when it is opened, and what a run does with it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from harness.database.endpoint import Endpoint
from harness.faults.real.job_site import SourceBroker
from harness.levels.job.records import SourceRecord
from harness.levels.job.spark_engine import SparkEnd


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceSite:
    """What a source gets when it is opened."""

    folder: Path
    """An empty folder of its own."""
    direct: Endpoint
    """The run's database, past the proxy, as root."""
    sink: Endpoint
    """The run's database as the job reaches it."""
    partitions: int
    run_id: str
    note_process: Callable[[int], None] = lambda pid: None
    """Called with the pid of each process that it starts."""


class JobSource(Protocol):
    """A source of one run. Mutable: it is opened, filled and closed, from one thread."""

    def open(self, site: SourceSite) -> None:
        """Makes it, empty. Raises WorldError if it cannot."""

    def environment(self) -> Mapping[str, str]:
        """Its part of the job's environment; each `FLOODMARK_JOB_SOURCE_X` is `{source.x}` in a template too."""

    def offer(self, records: Sequence[SourceRecord]) -> None:
        """Puts these records into it, after those before; returns when the job can see them."""

    def end(self) -> None:
        """Says that no record follows, if a source of this kind can."""

    def spark_end(self) -> SparkEnd:
        """What a checkpoint of Spark tells when it has read everything that was offered."""

    @property
    def broker(self) -> SourceBroker | None:
        """The server that holds it, for a fault that kills it; None: a source of this kind has none."""

    def close(self) -> None:
        """Removes what would outlive the run."""
