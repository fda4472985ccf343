"""The scenarios in which a defect can show: questions that an entry of the table asks about a random scenario.

Answers to equivalent mutants: a scenario in which a defect cannot differ from the reference does not count against the
checkers. Invariant: a question looks at the scenario alone, not at a run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from harness.scenario.model import Scenario

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
