"""The scenarios in which a defect can show: questions that an entry of the table asks about a random scenario.

Answers to equivalent mutants: a scenario in which a defect cannot differ from the reference does not count against the
checkers. Invariant: a question looks at the scenario alone, not at a run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from harness.scenario.model import Scenario

__all__ = [
    "NEVER",
    "Applies",
    "anywhere",
    "both",
    "calls_are_lost",
    "calls_fail",
    "calls_once",
    "can_be_superseded",
    "cancels_calls",
    "claims_checkpoint_gap",
    "clock_jumps",
    "commit_replies_are_lost",
    "has_dead_letters",
    "has_final_watermark",
    "has_hard_back_pressure",
    "has_no_timeout",
    "has_several_results",
    "has_several_subtasks",
    "has_timeout",
    "has_watermarks",
    "is_disturbed",
    "is_keyed",
    "is_ordered",
    "is_restored",
    "is_unordered",
    "network_is_disturbed",
    "retries",
    "reuses_objects",
    "sink_is",
    "sink_is_disturbed",
    "store_fails",
    "store_is_used",
    "substitutes",
    "timeouts_cancel_nothing",
    "watermarks_repeat",
]

Applies = Callable[[Scenario], bool]

_CUTS: Final = (
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


def _has_fault(scenario: Scenario, *kinds: str, link: str | None = None) -> bool:
    """Whether there is a fault of one of these kinds; with `link`, one of that link."""
    return any(
        fault.do in kinds and link in {None, getattr(fault, "link", None)} for fault in scenario.faults
    )


def is_restored(scenario: Scenario) -> bool:
    """An attempt is killed, or superseded."""
    return _has_fault(scenario, "kill_worker", "zombie")


def can_be_superseded(scenario: Scenario) -> bool:
    """A superseded attempt goes on."""
    return _has_fault(scenario, "zombie")


def sink_is(*kinds: str) -> Applies:
    """A question that is true where the sink is of one of these kinds."""
    return lambda scenario: scenario.sink in kinds


def commit_replies_are_lost(scenario: Scenario) -> bool:
    """The answer to a COMMIT is lost."""
    return _has_fault(scenario, "lost_commit_reply")


def sink_is_disturbed(scenario: Scenario) -> bool:
    """Statements of the sink end with an error, or are lost."""
    return _has_fault(scenario, *_CUTS, "sql_error", link="sink") or _has_fault(
        scenario, "db_kill", "kill_connection", "kill_query", "lost_commit"
    )


def claims_checkpoint_gap(scenario: Scenario) -> bool:
    """A bound on the time between checkpoints is claimed."""
    by_time = scenario.workload.checkpoint_interval is not None and not scenario.faults
    return by_time or scenario.workload.checkpoint_gap is not None


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
    """With retry."""
    return scenario.operator.tries > 1


def has_timeout(scenario: Scenario) -> bool:
    """Records have a timeout."""
    return scenario.operator.timeout > 0


def has_no_timeout(scenario: Scenario) -> bool:
    """Records have no timeout."""
    return scenario.operator.timeout == 0


def timeouts_cancel_nothing(scenario: Scenario) -> bool:
    """A timeout gives the record a result, and its call goes on."""
    return has_timeout(scenario) and scenario.operator.on_timeout != "fail" and not scenario.operator.cancels


def substitutes(scenario: Scenario) -> bool:
    """A timeout gives the record a result, without retry."""
    answered = isinstance(scenario.operator.on_timeout, list | tuple)
    return has_timeout(scenario) and answered and calls_once(scenario)


def cancels_calls(scenario: Scenario) -> bool:
    """A timeout gives the record a result, and cancels its call."""
    return has_timeout(scenario) and scenario.operator.on_timeout != "fail" and scenario.operator.cancels


def has_several_results(scenario: Scenario) -> bool:
    """A record has from no result to several."""
    return scenario.workload.fanout > 1


def has_several_subtasks(scenario: Scenario) -> bool:
    """There is more than one subtask."""
    return scenario.workload.subtasks > 1


def store_fails(scenario: Scenario) -> bool:
    """Files of the checkpoint store cannot be written, are cut, or are removed."""
    return any(fault.do.startswith("store_") for fault in scenario.faults)


def store_is_used(scenario: Scenario) -> bool:
    """The sink keeps its checkpoints in the store."""
    return scenario.sink != "atomic"


def has_dead_letters(scenario: Scenario) -> bool:
    """A record whose calls fail is a dead letter."""
    return scenario.operator.on_error == "dead-letter"


def is_ordered(scenario: Scenario) -> bool:
    """Results leave in the order of their records."""
    return scenario.operator.mode == "ordered"


def is_unordered(scenario: Scenario) -> bool:
    """Results leave as they complete, between watermarks."""
    return scenario.operator.mode == "unordered"


def is_keyed(scenario: Scenario) -> bool:
    """Results of one key leave in the order of its records, and a key comes again."""
    return scenario.operator.mode == "keyed"


def has_hard_back_pressure(scenario: Scenario) -> bool:
    """A record may have been taken and wait for a slot when a checkpoint comes."""
    return scenario.operator.back_pressure == "hard" and scenario.workload.checkpoint_interval is not None


def has_watermarks(scenario: Scenario) -> bool:
    """The source has watermarks among its records."""
    return scenario.workload.watermark_every > 0


def watermarks_repeat(scenario: Scenario) -> bool:
    """Some watermarks equal the one before."""
    return scenario.workload.watermarks == "repeating"


def has_final_watermark(scenario: Scenario) -> bool:
    """The input ends with a watermark."""
    return scenario.workload.final_watermark


def reuses_objects(scenario: Scenario) -> bool:
    """The source reads each record into one object."""
    return scenario.workload.reuses_objects


def calls_are_lost(scenario: Scenario) -> bool:
    """Queries of the lookups end with an error or are lost, and the history has the expected results."""
    disturbed = _has_fault(scenario, *_CUTS, "sql_error", link="lookups") or _has_fault(
        scenario, "db_kill", "kill_query", "kill_connection"
    )
    return scenario.workload.expected == "told" and disturbed


def is_disturbed(scenario: Scenario) -> bool:
    """The scenario has faults."""
    return bool(scenario.faults)


def clock_jumps(scenario: Scenario) -> bool:
    """The wall clock is set."""
    return _has_fault(scenario, "clock_jump")


def network_is_disturbed(scenario: Scenario) -> bool:
    """The link of the lookups delays or drops what is sent on it."""
    return _has_fault(scenario, "latency", "jitter", "one_way", "blackhole", "hold_reply", link="lookups")
