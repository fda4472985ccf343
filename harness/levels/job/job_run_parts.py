"""What a run of a job is made of, and the pace that its calm twin showed.

Invariant: a run without a pace is a calm one; every limit of a run with faults comes from the pace of its calm twin.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from harness.engine.level import RunSite
from harness.faults.model.fault import Fault
from harness.levels.job.finished import ExpectedRows
from harness.levels.job.job_setup import JobSetup
from harness.levels.job.order import JobOrder
from harness.levels.job.records import JobInput
from harness.world.world import World

_QUIET_MIN_US: Final = 300_000
_RECOVER_MIN_US: Final = 5_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Pace:
    """How fast the job is without faults, in microseconds."""

    first_row_us: int
    """The time from its start to its first row."""
    gap_us: int
    """The longest time between two transactions."""
    took_us: int
    """The time from its start to its end."""

    @property
    def quiet_us(self) -> int:
        """After so much silence a working job would have written."""
        return max(_QUIET_MIN_US, 3 * self.gap_us)

    @property
    def recover_us(self) -> int:
        """How long it may take to go on after a fault."""
        return max(_RECOVER_MIN_US, 3 * self.took_us)


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRunParts:
    """What a run is made of."""

    order: JobOrder
    given: JobInput
    site: RunSite
    world: World
    ground: JobSetup
    command: Sequence[str]
    run_id: str
    limit_s: float
    pace: Pace | None = None
    """None: this is the calm twin, whose pace is not known yet."""
    expected: ExpectedRows | None = None
    """None: not known yet."""
    further_start: bool = False
    """Whether it is started once more when it is done."""
    table_statement: str = ""
    """The statement that makes the job's table beforehand; empty: the job does, or its schema did."""
    note_process: Callable[[int], None] = lambda pid: None
    faults: Sequence[Fault] = ()
    names_table: bool = True
    """Whether the job's statements name the sink's table; else moments count the COMMITs and writes of every table."""
