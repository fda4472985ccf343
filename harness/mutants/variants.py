"""What each planted defect replaces at level sim: its variant, and the situations in which it can show.

Answers to `harness.sut.mutants`, where the defects are named. Invariant: every mutant has a variant, and it differs
from the honest one; a situation in which it cannot differ is not counted against the checkers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from harness.mutants.of_calls import build_quiet_operator, failing_letters, failing_too, quiet_letters
from harness.mutants.of_clients import (
    answering_after_close,
    cancelling_nothing,
    losing_rows,
    reusing_cancelled,
)
from harness.mutants.of_sinks import (
    assuming_committed,
    checking_before,
    checking_table_before,
    committing_again,
    committing_at_snapshot,
    committing_blindly,
    keeping_output,
    reading_backwards,
    unfenced,
    unfenced_table,
    without_key,
    writing_at_once,
)
from harness.mutants.of_tasks import TimersByTheWall, omitting_blocked, one_early, one_late
from harness.mutants.of_the_harness import dropping, skipping_last_attempt
from harness.sim.situation import Situation
from harness.sim.situation_run import header_of
from harness.sim.variant import Variant
from harness.sut.keyed_mutants import KEYED_MUTANTS
from harness.sut.keyed_task.defects import KEYED_DEFECTS
from reference_impl.mutants import BUILDERS

__all__ = ["PLANTED", "Defect", "variant_of"]

Applies = Callable[[Situation], bool]


def _class(make: Any) -> Callable[[type[Any]], type[Any]]:
    """`make`, for which the type checker has no word: a cached function from class to class."""
    making: Callable[[type[Any]], type[Any]] = make
    return making


def _anywhere(situation: Situation) -> bool:
    del situation
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Defect:
    """A defect in place."""

    variant: Variant
    where: str = "anywhere"
    """In which situations it can show, in words; and as a question:"""
    applies: Applies = _anywhere
    scenario: str | None = None
    """Of the catalogue, with the task that it is a defect of; then it shows there, and in no situation."""


def _is_restored(situation: Situation) -> bool:
    return bool(situation.crashes or situation.zombies)


def _calls_once(situation: Situation) -> bool:
    return situation.operator.max_tries == 1


def _sink_is(*kinds: str) -> Applies:
    return lambda situation: situation.checkpoints.sink in kinds


def _is_disturbed_by(*kinds: str) -> Applies:
    return lambda situation: any(disturbance.kind in kinds for disturbance in situation.disturbances)


def _can_be_superseded(situation: Situation) -> bool:
    has_tokens = situation.checkpoints.sink in {"atomic", "two-phase"}
    return (has_tokens and bool(situation.zombies)) or (situation.lookups.writes and _is_restored(situation))


def _all(*questions: Applies) -> Applies:
    return lambda situation: all(question(situation) for question in questions)


def _operator(name: str, *, where: str = "anywhere", applies: Applies = _anywhere) -> Defect:
    return Defect(variant=Variant(build_operator=BUILDERS[name]), where=where, applies=applies)


_LINGER_MS = 100
"""By then what was asked before the close has been answered."""
_ONCE = "calls are made once"
_SUPERSEDED = "a superseded attempt, or a call of its, goes on; a sink with tokens, or calls that write"
_RESTORED = "an attempt is killed, or superseded"


def _of_keyed_task(name: str, *, scenario: str) -> Defect:
    return Defect(
        variant=Variant(keyed=KEYED_DEFECTS[name]),
        where=f"`{scenario}`",
        applies=lambda situation: False,
        scenario=scenario,
    )


PLANTED: Mapping[str, Defect] = {
    "snapshot-omits-blocked": Defect(
        variant=Variant(task=_class(omitting_blocked)),
        where="hard back pressure, checkpoints by mail",
        applies=lambda situation: situation.operator.back_pressure == "hard",
    ),
    "snapshot-omits-completed": _operator("snapshot-omits-completed"),
    "restores-reversed": _operator("restores-reversed", where=_RESTORED, applies=_is_restored),
    "state-read-backwards": Defect(
        variant=Variant(sink=_class(reading_backwards)), where=_RESTORED, applies=_is_restored
    ),
    "offset-one-early": Defect(variant=Variant(task=_class(one_early))),
    "offset-one-late": Defect(variant=Variant(task=_class(one_late))),
    "output-not-rolled-back": Defect(
        variant=Variant(sink=_class(keeping_output)),
        where=f"a sink that rolls back; {_RESTORED}",
        applies=_all(_sink_is("rollback"), _is_restored),
    ),
    "loses-completions": _operator(
        "loses-completions",
        where="no timeout",
        applies=lambda situation: situation.operator.timeout_ms == 0,
    ),
    "settles-twice": _operator("settles-twice", where=_ONCE, applies=_calls_once),
    "watermarks-at-once": _operator(
        "watermarks-at-once",
        where="there are watermarks",
        applies=lambda situation: situation.stream.watermark_every > 0,
    ),
    "segment-leak": _operator(
        "segment-leak",
        where="unordered, with watermarks",
        applies=lambda situation: (
            situation.operator.mode == "unordered" and situation.stream.watermark_every > 0
        ),
    ),
    "retries-after-timeout": _operator(
        "retries-after-timeout",
        where="calls are made again",
        applies=lambda situation: situation.operator.max_tries > 1,
    ),
    "late-results": Defect(
        variant=Variant(build_operator=BUILDERS["late-results"], client=_class(cancelling_nothing)),
        where=f"{_ONCE}; a timeout is answered, and cancels nothing",
        applies=_all(
            _calls_once,
            lambda situation: situation.operator.timeout_ms > 0,
            lambda situation: situation.operator.on_timeout != "fail",
            lambda situation: not situation.lookups.cancels,
        ),
    ),
    "restores-beyond-capacity": _operator("restores-beyond-capacity", where=_RESTORED, applies=_is_restored),
    "frees-slot-on-call": _operator("frees-slot-on-call"),
    "zombie-accepted": Defect(
        variant=Variant(sink=_class(unfenced), effects=_class(unfenced_table)),
        where=_SUPERSEDED,
        applies=_can_be_superseded,
    ),
    "fence-checked-before": Defect(
        variant=Variant(sink=_class(checking_before), effects=_class(checking_table_before)),
        where=_SUPERSEDED,
        applies=_can_be_superseded,
    ),
    "insert-without-key": Defect(
        variant=Variant(effects=_class(without_key)),
        where="calls write",
        applies=lambda situation: situation.lookups.writes,
    ),
    "commits-blindly": Defect(
        variant=Variant(sink=_class(committing_blindly)),
        where="an atomic sink with an audit log; answers to its commits are lost",
        applies=_all(
            _sink_is("atomic"),
            lambda situation: situation.checkpoints.tells_outputs,
            lambda situation: situation.checkpoints.reply_lost_share > 0,
        ),
    ),
    "assumes-committed": Defect(
        variant=Variant(sink=_class(assuming_committed)),
        where="an atomic sink; its link is disturbed",
        applies=_all(
            _sink_is("atomic"),
            lambda situation: any(
                "sink" in one.links and one.kind in {"blackhole", "down", "reset"}
                for one in situation.disturbances
            ),
        ),
    ),
    "loss-is-no-row": Defect(
        variant=Variant(client=_class(losing_rows)),
        where="calls end with an error, or are lost; what they should give is told",
        applies=lambda situation: (
            situation.stream.tells_expected
            and bool(situation.lookups.error_share or situation.lookups.loss_share)
        ),
    ),
    "commits-at-snapshot": Defect(
        variant=Variant(sink=_class(committing_at_snapshot)),
        where="a two-phase sink",
        applies=_sink_is("two-phase"),
    ),
    "commits-again": Defect(
        variant=Variant(sink=_class(committing_again)),
        where="a two-phase sink",
        applies=_sink_is("two-phase"),
    ),
    "cancelled-connection-reused": Defect(
        variant=Variant(client=_class(reusing_cancelled)),
        where="calls have nonces; a timeout cancels its call",
        applies=lambda situation: (
            situation.lookups.nonces and situation.lookups.cancels and situation.operator.timeout_ms > 0
        ),
    ),
    "swallows-errors": Defect(
        variant=Variant(build_operator=build_quiet_operator, function=quiet_letters),
        where=_ONCE,
        applies=_calls_once,
    ),
    "wall-clock-timers": Defect(
        variant=Variant(timers=TimersByTheWall),
        where="a timeout; the clock jumps",
        applies=_all(_is_disturbed_by("clock-jump"), lambda situation: situation.operator.timeout_ms > 0),
    ),
    "shares-records": _operator(
        "shares-records",
        where="the source reads each record into one object",
        applies=lambda situation: situation.stream.reuses_objects,
    ),
    "emits-from-callback": _operator("emits-from-callback", where=_ONCE, applies=_calls_once),
    "emits-after-close": Defect(
        variant=Variant(
            build_operator=BUILDERS["emits-after-close"],
            client=_class(answering_after_close),
            linger_ms=_LINGER_MS,
        ),
        where=_ONCE,
        applies=_calls_once,
    ),
    "end-at-once": _operator(
        "end-at-once",
        where="there is a final watermark",
        applies=lambda situation: situation.stream.final_watermark,
    ),
    "snapshot-awaits-empty-queue": _operator(
        "snapshot-awaits-empty-queue",
        where="a bound on the time between checkpoints is claimed",
        applies=lambda situation: (
            header_of(situation, seed=0, sink="rollback").bounds.checkpoint_gap is not None
        ),
    ),
    "dead-letter-and-failure": Defect(
        variant=Variant(dead_letters=_class(failing_too), function=failing_letters),
        where="there are dead letters",
        applies=lambda situation: (
            "dead-letter" in (situation.operator.on_error, situation.operator.on_timeout)
        ),
    ),
    "proxy-bypassed": Defect(
        variant=Variant(bypasses_proxy=True),
        where="something disturbs the network",
        applies=_is_disturbed_by("latency", "blackhole"),
    ),
    "faults-do-nothing": Defect(
        variant=Variant(arms_faults=False),
        where="something disturbs the run",
        applies=lambda situation: bool(situation.disturbances),
    ),
    "recorder-drops": Defect(variant=Variant(journal=_class(dropping))),
    "judge-skips-last-attempt": Defect(variant=Variant(judge=skipping_last_attempt)),
    "sink-outside-transaction": Defect(
        variant=Variant(sink=_class(writing_at_once)),
        where=f"an atomic sink with an audit log; {_RESTORED}",
        applies=_all(_sink_is("atomic"), lambda situation: situation.checkpoints.tells_outputs, _is_restored),
    ),
    "drops-equal-watermarks": _operator(
        "drops-equal-watermarks",
        where="watermarks repeat",
        applies=lambda situation: situation.stream.watermarks == "repeating",
    ),
    "unordered-emission": _operator(
        "unordered-emission", where="ordered", applies=lambda situation: situation.operator.mode == "ordered"
    ),
    **{
        mutant.name: _of_keyed_task(mutant.name, scenario=mutant.scenario or "sessions-two-phase")
        for mutant in KEYED_MUTANTS
    },
}
"""By the mutant's name."""


def variant_of(name: str) -> Variant:
    """What the mutant `name` of `harness.sut.mutants` replaces."""
    return PLANTED[name].variant
