"""Situations to test with: a calm small one, and whatever is changed of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeVar

from harness.checkers.judge import judge
from harness.history.event import Event
from harness.sim.scenario_run import Simulated
from harness.sim.situation import Checkpoints, Lookups, Operator, Situation, Stream
from harness.sim.situation_run import simulate
from harness.sim.variant import HONEST, Variant
from harness.verdict import Outcome

__all__ = ["only", "ran", "situation", "violated"]

E = TypeVar("E", bound=Event)


def situation(
    *,
    operator: dict[str, Any] | None = None,
    stream: dict[str, Any] | None = None,
    lookups: dict[str, Any] | None = None,
    checkpoints: dict[str, Any] | None = None,
    **rest: Any,
) -> Situation:
    """Six records and a barrier every third position, two-phase, and nothing goes wrong; but for what is given."""
    stream_of_six = Stream(subtasks=1, records=6, keys=3, width_max=1, every_ms=1, watermark_every=2)
    return Situation(
        operator=replace(Operator(mode="ordered", capacity=3, timeout_ms=0), **(operator or {})),
        stream=replace(stream_of_six, **(stream or {})),
        lookups=replace(Lookups(latency_ms=(5, 9)), **(lookups or {})),
        checkpoints=replace(Checkpoints(sink="two-phase", style="barriers", every=3), **(checkpoints or {})),
        **rest,
    )


def ran(of: Situation, *, seed: int = 1, variant: Variant = HONEST) -> Simulated:
    """What came of it."""
    return simulate(of, seed=seed, variant=variant)


def violated(of: Simulated) -> list[str]:
    """The invariants that the judge finds broken."""
    judgement = judge(of.header, of.events)
    return [one.invariant for one in judgement.invariants if one.outcome is Outcome.FAIL]


def only(kind: type[E], events: Sequence[Event]) -> list[E]:
    """The events of one kind."""
    return [event for event in events if isinstance(event, kind)]
