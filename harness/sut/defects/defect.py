"""What a planted defect is, and the questions that it asks about the scenarios in which it can show.

Answers to equivalent mutants: a scenario in which a defect cannot differ from the reference does not count against the
checkers. Invariant: a question looks at the scenario alone, not at a run.

Answers to mutation testing; the numbers M1, M2, ... are those of `docs/reference/mutants.md`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from harness.scenario.model import Scenario
from harness.scenario.plan import Runner
from harness.sut.variant import Variant
from harness.system.levels import OPERATOR_LEVELS, Level

Applies = Callable[[Scenario], bool]

CUTS: Final = (
    "reset",
    "reset_now",
    "reset_at_packet",
    "cut",
    "down",
    "blackhole",
    "half_open",
    "lost_commit",
)
"""Faults of a link that end its connections, or the statements on them."""


def anywhere(scenario: Scenario) -> bool:
    """Always true."""
    del scenario
    return True


def NEVER(scenario: Scenario) -> bool:  # noqa: N802 - compared by identity, as a constant
    """Never true: the kill matrix tries the defect in its own scenario (`Defect.tried_in`)."""
    del scenario
    return False


def both(*questions: Applies) -> Applies:
    """A question that is true where all `questions` are."""
    return lambda scenario: all(question(scenario) for question in questions)


def has_fault(scenario: Scenario, *kinds: str, link: str | None = None) -> bool:
    """Whether there is a fault of one of these kinds; with `link`, one of that link."""
    return any(
        fault.do in kinds and link in {None, getattr(fault, "link", None)} for fault in scenario.faults
    )


def can_be_superseded(scenario: Scenario) -> bool:
    """A superseded attempt goes on."""
    return has_fault(scenario, "zombie")


def sink_is(*kinds: str) -> Applies:
    """A question that is true where the sink is of one of these kinds."""
    return lambda scenario: scenario.sink in kinds


def commit_replies_are_lost(scenario: Scenario) -> bool:
    """The answer to a COMMIT is lost."""
    return has_fault(scenario, "lost_commit_reply")


def calls_fail(scenario: Scenario) -> bool:
    """A record's calls end with an error."""
    poisoned = any(
        fault.do == "poison" and getattr(fault, "how", "") == "raises" for fault in scenario.faults
    )
    return poisoned or scenario.workload.failing_every > 0


def calls_once(scenario: Scenario) -> bool:
    """Without retry."""
    return scenario.operator.tries == 1


def retries(scenario: Scenario) -> bool:
    """Whether the scenario's operator retries."""
    return scenario.operator.tries > 1


def is_ordered(scenario: Scenario) -> bool:
    """Results leave in the order of their records."""
    return scenario.operator.mode == "ordered"


def is_unordered(scenario: Scenario) -> bool:
    """Results leave as they complete, between watermarks."""
    return scenario.operator.mode == "unordered"


def has_watermarks(scenario: Scenario) -> bool:
    """The source has watermarks among its records."""
    return scenario.workload.watermark_every > 0


def calls_are_lost(scenario: Scenario) -> bool:
    """Queries of the lookups end with an error or are lost, and the history has the expected results."""
    disturbed = has_fault(scenario, *CUTS, "sql_error", link="lookups") or has_fault(
        scenario, "db_kill", "kill_query", "kill_connection"
    )
    return scenario.workload.expected == "told" and disturbed


def is_disturbed(scenario: Scenario) -> bool:
    """The scenario has faults."""
    return bool(scenario.faults)


HARNESS_CHECKS = {
    "recording": "Every event that was made stands in the history: its numbers have no gap, up to the last.",
    "canary": "The judge convicts each of a set of small histories that it must convict.",
}
"""The checks that convict a defect of the recorder or of the judge: the history lacks what an invariant would need."""

SIM_ONLY: tuple[Level, ...] = ("sim",)
SIM_AND_LIVE: tuple[Level, ...] = ("sim", "live")
"""For a defect whose scenario runs at levels sim and live."""
EVERY_LEVEL: tuple[Level, ...] = OPERATOR_LEVELS


@dataclass(frozen=True, slots=True, kw_only=True)
class Defect:
    """A planted defect that a run, or the kill matrix, can show."""

    number: int | None = None
    """M1, M2, ...; some numbers have several variants, and a few defects have no number."""
    name: str
    about: str
    """What is wrong, as half a sentence."""
    mirrors: str = ""
    """The ticket, or the mistake, that it stands for."""
    convicted_by: tuple[str, ...] = ()
    """The invariants meant for it; at least one of them must fail (V23: the run must be vacuous). Empty: any may."""
    variant: Variant
    """The parts of a run that it replaces."""
    where: str = "anywhere"
    """The random scenarios in which it can show, in words."""
    applies: Applies = anywhere
    """The same as a question about a scenario."""
    scenario: str | None = None
    """The scenario of the catalogue that is meant for it."""
    levels: tuple[Level, ...] = EVERY_LEVEL
    """The levels at which the invariants meant for it convict it; at live and spark in its scenario."""
    runner: Runner | None = None
    """The runner of level spark that alone shows it; None: any runner that has the parts it replaces."""

    @property
    def label(self) -> str:
        """`M7`; empty if it has no number."""
        return "" if self.number is None else f"M{self.number}"

    @property
    def shows_in_a_run(self) -> bool:
        """Whether the judgement of one run can convict it; if not, the kill matrix can."""
        return bool(self.levels) and not (self.convicted_by and set(self.convicted_by) <= set(HARNESS_CHECKS))

    @property
    def tried_in(self) -> str | None:
        """The scenario in which the kill matrix tries it at level sim; None: random scenarios can show it."""
        return self.scenario if self.applies is NEVER else None

    def scenario_at(self, level: Level) -> str | None:
        """The scenario in which it shows at `level`; None: it was not convicted at that level."""
        return self.scenario if level in self.levels else None
