"""An order for a job: scenario, job, seed and environment of one run.

Invariant: a run depends on its order and on what the job does by itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from harness.levels.job.job_file import JobFile
from harness.levels.job.job_scenario import JobScenario
from harness.world.mysql_server import BINLOG
from harness.world.proxy_program import LOG, PACKETS


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOrder:
    """One run of a job to perform; implements `harness.scenario.order.AnyOrder`."""

    level: ClassVar[str] = "job"
    mutant: ClassVar[str | None] = None
    needs: ClassVar[frozenset[str]] = frozenset({PACKETS, LOG, BINLOG})

    scenario: JobScenario
    job: JobFile
    seed: int
    """The seed of the faults' choices."""
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    """What the job's environment is made from: that of the command, without the harness's own options."""
    data_seed: int | None = None
    """The seed of the records and rows, the same in all runs of a command, so that they share a calm twin.

    None: `seed`.
    """
    named: bool = True
    """Whether its scenario was named: one that the job cannot meet is refused then, else left out."""
    calm_only: bool = False
    """Whether only the calm twin runs; the run is that twin."""
    import_path: tuple[str, ...] = ()
    """Where `claims.expected` is imported from."""
    again: str = ""
    fails_on_pitfall: bool = False

    @property
    def drawn_by(self) -> int:
        """The seed of the records and rows."""
        return self.seed if self.data_seed is None else self.data_seed

    @property
    def sut(self) -> str:
        """The job's command or callable."""
        return self.job.title
