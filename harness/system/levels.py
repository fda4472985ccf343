"""The levels at which runs are made, and what each needs, takes and does not show.

A new level is a row here and the package that the row names. `harness.levels` imports it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class LevelFacts:
    """One level."""

    at: str
    """`module:class` of its `harness.engine.level.Level`."""
    repeats: bool = False
    """Whether equal orders give equal histories, byte for byte."""
    runs_jobs: bool = False
    """Whether it runs whole jobs, which have scenarios of their own."""
    extras: tuple[str, ...] = ()
    """The extras of the distribution that it needs."""
    packages: tuple[str, ...] = ()
    """Packages of those extras whose versions tell what a run used, beside those that every level may use."""
    starts_s: int = 0
    """How long what it starts for a first run may take: a server, a JVM."""
    slack_ms: int = 5_000
    """Tolerance for a loaded machine or disk; a later outcome counts as a violation."""
    timer_resolution_ms: int = 1
    """How much too early a timer may fire."""
    tells_waits: bool = False
    """Whether each long wait of an attempt's thread for its sink is an event `held`."""
    restarts_together: bool = False
    """Whether a failure ends the attempts of all subtasks; else each subtask restarts alone."""
    not_shown: str = ""
    """What no run at this level can show, in a sentence of a report; empty: nothing but what every level lacks."""
    not_shown_of_server: str = ""
    """The same of a run whose lookups asked a real server."""


LEVELS: Final[Mapping[str, LevelFacts]] = {
    "sim": LevelFacts(
        at="harness.levels.sim.level:SimulatedLevel",
        repeats=True,
        slack_ms=100,  # virtual time knows no load
        timer_resolution_ms=0,
        tells_waits=True,
        not_shown="The level was sim: time, network and database are models, which fail only as they were built to.",
        not_shown_of_server="The level was sim: lookups asked a real server, whose replies take no time; time, network "
        "and the sink's database are models, which fail only as they were built to.",
    ),
    "live": LevelFacts(
        at="harness.levels.live.supervisor:LiveLevel",
        extras=("mysql",),
        starts_s=120,
        not_shown="The level was live: the operator ran without Spark, its scheduling and its retries.",
    ),
    "job": LevelFacts(
        at="harness.levels.job.level:JobLevel",
        runs_jobs=True,
        extras=("mysql",),
        not_shown="The job was seen from outside: its table and the database's log of changes were judged, and nothing "
        "of what it does inside.",
    ),
    "job-sim": LevelFacts(
        at="harness.levels.virtual.level:VirtualJobLevel",
        repeats=True,
        runs_jobs=True,
        extras=("mysql",),
        not_shown="The job ran in virtual time, in one thread: a real server answered it at once, and what threads, "
        "real delays and a server that dies would do to it was not seen. It was judged from outside.",
    ),
    "spark": LevelFacts(
        at="harness.levels.spark.level:SparkLevel",
        extras=("spark", "mysql"),
        packages=("pyspark", "pyarrow"),
        starts_s=300,
        restarts_together=True,
    ),
}
OPERATOR_LEVELS: Final = tuple(name for name, level in LEVELS.items() if not level.runs_jobs)
"""The levels that scenarios of an operator may list."""

if TYPE_CHECKING:
    Level = str
else:
    Level = Literal[OPERATOR_LEVELS]
