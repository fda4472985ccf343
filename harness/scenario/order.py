"""An order: scenario, level, seed and system under test of one run.

Invariant: a run depends only on its order, so equal orders at level sim give equal histories.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Literal, Protocol

from harness.scenario.plan import Runner
from harness.system.choices import fresh_seed
from harness.system.clock import utc_now
from harness.system.json_types import JsonView

if TYPE_CHECKING:  # the process of the calm twin needs no scenario, and starts sooner without
    from collections.abc import Sequence

    from harness.faults.parts.thresholds import Thresholds
    from harness.scenario.model import Fault, Scenario

REFERENCE = "reference"
"""The default system under test."""


class AnyScenario(Protocol):
    """What the engine asks of a scenario, of whatever kind."""

    @property
    def scenario(self) -> str: ...
    @property
    def about(self) -> str: ...
    @property
    def faults(self) -> Sequence[Fault]: ...
    @property
    def pitfall(self) -> str | None:
        """The mistake that a run must report, or it counts as vacuous."""

    @property
    def lookups_from(self) -> Literal["primary", "replica"] | None:
        """The server that lookups ask; None: the sink's."""

    @property
    def thresholds(self) -> Thresholds | None: ...
    @property
    def has_two_servers(self) -> bool: ...
    def model_dump(self, *, mode: str, by_alias: bool) -> JsonView: ...


class AnyOrder(Protocol):
    """What the engine asks of an order, of whatever kind: of our operator's run, or of a user's job."""

    @property
    def scenario(self) -> AnyScenario: ...
    @property
    def level(self) -> str: ...
    @property
    def seed(self) -> int: ...
    @property
    def sut(self) -> str: ...
    @property
    def mutant(self) -> str | None: ...
    @property
    def again(self) -> str: ...
    @property
    def fails_on_pitfall(self) -> bool: ...
    @property
    def needs(self) -> frozenset[str]: ...
    @property
    def named(self) -> bool:
        """Whether its scenario was named; else it was chosen by `all`, a folder or a tag, and may be left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """One run to perform."""

    named: ClassVar[bool] = True

    scenario: Scenario
    level: str
    seed: int
    sut: str = REFERENCE
    runner: Runner = "continuous"
    """How level spark runs the operator."""
    cluster: int = 0
    """The number of workers of a Spark cluster that the harness starts; 0: none."""
    master: str = ""
    """The address of the user's own Spark cluster; empty: none."""
    expected: str | None = None
    """What states the results of a user's lookup: `module:function` or `none`.

    None: the function `expected` in the lookup's module if it has one, else the calm twin.
    """
    mutant: str | None = None
    import_path: tuple[str, ...] = ()
    again: str = ""
    """The command line that repeats this run."""
    fails_on_pitfall: bool = False
    """Whether a pitfall makes the run fail (`--fail-on pitfall`)."""
    needs: frozenset[str] = frozenset()
    """The abilities of a world that it needs, besides those of its faults."""


def new_run_id() -> str:
    """A name that sorts by time and is unique even for commands started together."""
    return f"{utc_now():%Y%m%d-%H%M%S}-{fresh_seed()}"
