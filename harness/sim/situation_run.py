"""Simulates a situation: from the value to its history, with a header that claims no more than is kept.

Answers to Jepsen's `run!` at the scale of a test case. Invariant: equal situations, seeds and variants leave equal
histories.
"""

from __future__ import annotations

import copy
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from harness.database.connection_lost import ConnectionLost
from harness.history.header import Bounds, Expects, Header
from harness.history.header import Operator as OperatorClaim
from harness.sim.atomic_sink import AtomicSink
from harness.sim.attempt import Job
from harness.sim.downstream import Downstream
from harness.sim.global_coordination import GlobalCoordination
from harness.sim.reference_lookup import LookupFailed
from harness.sim.scenario_run import Simulated
from harness.sim.sinks.open_sink import AppendSink, RollbackSink
from harness.sim.sinks.two_phase import TwoPhaseSink
from harness.sim.situated_lookup import SituatedLookup
from harness.sim.situated_run import PATIENCE_MS, SituatedRun
from harness.sim.situation import Situation
from harness.sim.situation_source import SituationSource, elements_of, results_of
from harness.sim.variant import HONEST, Variant
from harness.sut.coordination import Coordination
from reference_impl.retry import NO_RETRY, FixedDelay, RetryStrategy, error_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from harness.history.header import Sink
    from harness.sim.attempt import Attempt

__all__ = ["header_of", "simulate"]

_SINKS: Final[dict[str, type[Any]]] = {
    "atomic": AtomicSink,
    "two-phase": TwoPhaseSink,
    "rollback": RollbackSink,
    "append": AppendSink,
}
_COMMIT_MS_MAX: Final = 25
"""One commit: a round trip, on a fresh connection."""
_LOST_COMMIT_MS_MAX: Final = 90
"""One whose answer was lost: another round trip, and the pause before it."""
_COMMITS_IN_A_ROW: Final = 12
"""Without a turn for anything else: barriers between elements that are due, or epochs whose notifications were lost."""


def simulate(situation: Situation, *, seed: int, variant: Variant = HONEST) -> Simulated:
    """Run it, and say what came of it."""
    run = SituatedRun(situation, seed=seed, variant=variant)
    job = _job(situation, seed)
    run.run(job)
    return Simulated(
        header=header_of(situation, seed=seed, sink=variant.sink(job.sink).kind),
        events=run.tape.events,
        error=run.error,
        virtual_ms=run.hub.now_ms,
        numbered=run.tape.numbered,
    )


def _job(situation: Situation, seed: int) -> Job:
    operator, stream, points = situation.operator, situation.stream, situation.checkpoints
    elements = [elements_of(situation, seed=seed, subtask=subtask) for subtask in range(stream.subtasks)]
    together = situation.restarts_together
    return Job(
        mode=operator.mode,
        capacity=operator.capacity,
        timeout_ms=operator.timeout_ms,
        subtasks=stream.subtasks,
        source=lambda subtask, origin_ms: SituationSource(
            elements[subtask], stream=stream, checkpoints=points, origin_ms=origin_ms
        ),
        sink=_SINKS[points.sink],
        function=SituatedLookup,
        expect=partial(results_of, stream=stream) if stream.tells_expected else None,
        retry=_retry(situation),
        nonces=situation.lookups.nonces,
        connections=situation.lookups.connections,
        linger_ms=situation.linger_ms,
        is_hard=operator.back_pressure == "hard",
        coordination=GlobalCoordination if together else Coordination,
        downstream=_downstream(situation),
        copy_value=copy.copy if stream.reuses_objects else None,
    )


def _downstream(situation: Situation) -> Callable[[Attempt], Downstream] | None:
    if situation.operator.downstream is None:
        return None
    asked_max, shut_ms = situation.operator.downstream
    return partial(Downstream, asked_max=asked_max, shut_ms=shut_ms)


def _retry(situation: Situation) -> RetryStrategy:
    operator = situation.operator
    if operator.max_tries == 1:
        return NO_RETRY
    return FixedDelay(
        max_retries=operator.max_tries - 1,
        delay_ms=operator.backoff_ms,
        on_error=error_of(LookupFailed, ConnectionLost),
    )


# ------------------------------------------------------------------------------------------------ the claims


def header_of(situation: Situation, *, seed: int, sink: Sink) -> Header:
    """What an honest operator claims in that situation."""
    operator, stream = situation.operator, situation.stream
    return Header(
        operator=OperatorClaim(
            mode=operator.mode,
            capacity=operator.capacity,
            timeout_ms=operator.timeout_ms,
            max_tries=operator.max_tries,
        ),
        sink=sink,
        effects=situation.effects,
        bounds=_bounds(situation),
        expects=Expects(
            records=stream.records * stream.subtasks,
            checkpoints=1,
            faults=tuple(one.name for one in situation.disturbances),
        ),
        run={"situation": seed},
    )


def _bounds(situation: Situation) -> Bounds:
    hold_ms = _task_blocks_ms(situation)
    return Bounds(
        watermark_hold=hold_ms + _downstream_shuts_ms(situation),
        timeout_slack=hold_ms,
        recover=PATIENCE_MS,
        checkpoint_gap=_checkpoint_gap_ms(situation),
    )


def _task_blocks_ms(situation: Situation) -> int:
    """How long the task may do nothing else, for it commits."""
    commit_ms = _LOST_COMMIT_MS_MAX if situation.checkpoints.reply_lost_share else _COMMIT_MS_MAX
    disturbed_ms = sum(
        one.lasts_ms + 2 * one.amount_ms + _LOST_COMMIT_MS_MAX
        for one in situation.disturbances
        if "sink" in one.links and one.kind in ("latency", "blackhole", "down", "reset")
    )
    commits = 1 if situation.checkpoints.sink in ("rollback", "append") else _COMMITS_IN_A_ROW
    return commits * commit_ms + disturbed_ms


def _downstream_shuts_ms(situation: Situation) -> int:
    """How long what may leave is held, if it has a full queue before it and each entry meets a shut door."""
    operator = situation.operator
    return 0 if operator.downstream is None else (operator.capacity + 1) * operator.downstream[1]


def _checkpoint_gap_ms(situation: Situation) -> int | None:
    """Claimed where checkpoints come by time, and neither they nor the task are held up."""
    operator, lookups, points = situation.operator, situation.lookups, situation.checkpoints
    fails = operator.on_error == "fail" and bool(lookups.error_share or lookups.loss_share)
    fails |= operator.timeout_ms > 0 and operator.on_timeout == "fail"
    if points.style == "barriers" or situation.is_disturbed or points.reply_lost_share or fails:
        return None
    return 2 * points.every + 5 * points.round_trip_ms[1] + 30 + _drain_ms(situation)


def _drain_ms(situation: Situation) -> int:
    """How long a task takes no checkpoint because it drains; one under hard back pressure takes them meanwhile."""
    operator, lookups = situation.operator, situation.lookups
    if operator.back_pressure == "hard":
        return 0
    call_ms = lookups.latency_ms[1] + (lookups.slow_ms if lookups.slow_share else 0)
    rounds = -(
        -operator.capacity // min(operator.capacity, lookups.connections)
    )  # calls wait for connections
    drain_ms = rounds * call_ms * min(operator.max_tries, 2)  # the call that is under way, and a last one
    return min(drain_ms, operator.timeout_ms) if operator.timeout_ms else drain_ms
