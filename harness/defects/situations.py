"""In which random situations a defect can show: the questions that entries of the table ask.

Answers to equivalent mutants: a situation in which a defect cannot differ from the reference is not counted against
the checkers. Invariant: only this module looks into a `Situation`; the rest of the table names its questions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.sim.situation import Situation

__all__ = [
    "NEVER",
    "Applies",
    "anywhere",
    "both",
    "calls_are_lost_or_fail",
    "calls_once",
    "can_be_superseded",
    "cancels_calls_with_nonces",
    "claims_checkpoint_gap",
    "clock_jumps",
    "commit_replies_are_lost",
    "has_audit_log",
    "has_dead_letters",
    "has_final_watermark",
    "has_hard_back_pressure",
    "has_no_timeout",
    "has_timeout",
    "has_watermarks",
    "is_disturbed",
    "is_ordered",
    "is_restored",
    "is_unordered",
    "lookups_write",
    "network_is_disturbed",
    "retries",
    "reuses_objects",
    "sink_is",
    "sink_link_is_cut",
    "timeouts_cancel_nothing",
    "watermarks_repeat",
]

Applies = Callable[["Situation"], bool]


def anywhere(situation: Situation) -> bool:
    """In each."""
    del situation
    return True


def NEVER(situation: Situation) -> bool:  # noqa: N802 - compared by identity, as a constant
    """In none: its scenario has a task that random situations have not."""
    del situation
    return False


def both(*questions: Applies) -> Applies:
    """Where all of them hold."""
    return lambda situation: all(question(situation) for question in questions)


def is_restored(situation: Situation) -> bool:
    """An attempt is killed, or superseded."""
    return bool(situation.crashes or situation.zombies)


def can_be_superseded(situation: Situation) -> bool:
    """A superseded attempt, or a call of its, goes on, and something compares tokens."""
    has_tokens = situation.checkpoints.sink in {"atomic", "two-phase"}
    return (has_tokens and bool(situation.zombies)) or (situation.lookups.writes and is_restored(situation))


def sink_is(*kinds: str) -> Applies:
    """The sink is of one of these kinds."""
    return lambda situation: situation.checkpoints.sink in kinds


def has_audit_log(situation: Situation) -> bool:
    """Each row that becomes visible is told."""
    return situation.checkpoints.tells_outputs


def commit_replies_are_lost(situation: Situation) -> bool:
    """Answers to some commits never come."""
    return situation.checkpoints.reply_lost_share > 0


def claims_checkpoint_gap(situation: Situation) -> bool:
    """A bound on the time between checkpoints is claimed."""
    from harness.sim.situation_run import header_of  # noqa: PLC0415 - a worker at level live never asks

    return header_of(situation, seed=0, sink="rollback").bounds.checkpoint_gap is not None


def calls_once(situation: Situation) -> bool:
    """There is no retry."""
    return situation.operator.max_tries == 1


def retries(situation: Situation) -> bool:
    """A call that failed is made again."""
    return situation.operator.max_tries > 1


def has_timeout(situation: Situation) -> bool:
    """A record times out."""
    return situation.operator.timeout_ms > 0


def has_no_timeout(situation: Situation) -> bool:
    """No record times out."""
    return situation.operator.timeout_ms == 0


def timeouts_cancel_nothing(situation: Situation) -> bool:
    """A timeout is answered for, and its call goes on."""
    return (
        has_timeout(situation) and situation.operator.on_timeout != "fail" and not situation.lookups.cancels
    )


def cancels_calls_with_nonces(situation: Situation) -> bool:
    """A timeout cancels its call, and a nonce tells whose an answer is."""
    return situation.lookups.nonces and situation.lookups.cancels and has_timeout(situation)


def has_dead_letters(situation: Situation) -> bool:
    """A record that failed, or timed out, is a dead letter."""
    return "dead-letter" in (situation.operator.on_error, situation.operator.on_timeout)


def is_ordered(situation: Situation) -> bool:
    """Results leave in the order of their records."""
    return situation.operator.mode == "ordered"


def is_unordered(situation: Situation) -> bool:
    """Results leave as they complete, between watermarks."""
    return situation.operator.mode == "unordered"


def has_hard_back_pressure(situation: Situation) -> bool:
    """A record that has entered may wait for a slot."""
    return situation.operator.back_pressure == "hard"


def has_watermarks(situation: Situation) -> bool:
    """The source has watermarks among its records."""
    return situation.stream.watermark_every > 0


def watermarks_repeat(situation: Situation) -> bool:
    """Some watermarks equal the one before."""
    return situation.stream.watermarks == "repeating"


def has_final_watermark(situation: Situation) -> bool:
    """The input ends with a watermark."""
    return situation.stream.final_watermark


def reuses_objects(situation: Situation) -> bool:
    """The source reads each record into one object."""
    return situation.stream.reuses_objects


def lookups_write(situation: Situation) -> bool:
    """Calls write a row."""
    return situation.lookups.writes


def calls_are_lost_or_fail(situation: Situation) -> bool:
    """Calls end with an error, or are lost; what they should give is told."""
    return situation.stream.tells_expected and bool(
        situation.lookups.error_share or situation.lookups.loss_share
    )


def is_disturbed(situation: Situation) -> bool:
    """Something disturbs the run."""
    return bool(situation.disturbances)


def clock_jumps(situation: Situation) -> bool:
    """The wall clock is set."""
    return any(one.kind == "clock-jump" for one in situation.disturbances)


def network_is_disturbed(situation: Situation) -> bool:
    """A link is slow, or swallows what it is given."""
    return any(one.kind in {"latency", "blackhole"} for one in situation.disturbances)


def sink_link_is_cut(situation: Situation) -> bool:
    """The sink's link swallows, refuses or resets."""
    return any(
        "sink" in one.links and one.kind in {"blackhole", "down", "reset"} for one in situation.disturbances
    )
