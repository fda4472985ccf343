"""The scenarios in which a defect of this collection can show, beside those of `harness.sut.defects.defect`."""

from __future__ import annotations

from harness.faults.completions import AnswerAtTimeout
from harness.scenario.model import Scenario
from harness.sut.defects.defect import CUTS, calls_once, has_fault


def is_restored(scenario: Scenario) -> bool:
    """An attempt is killed, or superseded."""
    return has_fault(scenario, "kill_worker", "zombie")


def sink_is_disturbed(scenario: Scenario) -> bool:
    """Statements of the sink end with an error, or are lost."""
    return has_fault(scenario, *CUTS, "sql_error", link="sink") or has_fault(
        scenario, "db_kill", "kill_connection", "kill_query", "lost_commit"
    )


def claims_checkpoint_gap(scenario: Scenario) -> bool:
    """A bound on the time between checkpoints is claimed."""
    by_time = scenario.workload.checkpoint_interval is not None and not scenario.faults
    return by_time or scenario.workload.checkpoint_gap is not None


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


def answers_at_timeouts(scenario: Scenario) -> bool:
    """An answer has been accepted, and its mail waits behind that of the record's timer."""
    return any(isinstance(fault, AnswerAtTimeout) and fault.how == "at" for fault in scenario.faults)


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


def is_keyed(scenario: Scenario) -> bool:
    """Results of one key leave in the order of its records, and a key comes again."""
    return scenario.operator.mode == "keyed"


def has_hard_back_pressure(scenario: Scenario) -> bool:
    """A record may have been taken and wait for a slot when a checkpoint comes."""
    return scenario.operator.back_pressure == "hard" and scenario.workload.checkpoint_interval is not None


def watermarks_repeat(scenario: Scenario) -> bool:
    """Some watermarks equal the one before."""
    return scenario.workload.watermarks == "repeating"


def has_final_watermark(scenario: Scenario) -> bool:
    """The input ends with a watermark."""
    return scenario.workload.final_watermark


def reuses_objects(scenario: Scenario) -> bool:
    """The source reads each record into one object."""
    return scenario.workload.reuses_objects


def clock_jumps(scenario: Scenario) -> bool:
    """The wall clock is set."""
    return has_fault(scenario, "clock_jump")


def network_is_disturbed(scenario: Scenario) -> bool:
    """The link of the lookups delays or drops what is sent on it."""
    return has_fault(scenario, "latency", "jitter", "one_way", "blackhole", "hold_reply", link="lookups")
