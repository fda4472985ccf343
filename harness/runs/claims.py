"""The header of a run's history: the properties that the run claims; the same at every level.

Documented in `docs/reference/history.md` (Header). Invariant: claims come from the settings of operator, sink and
level, not from the run's result; only `audited` is known afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.runs.order import Order
from harness.scenario.model import Scenario
from harness.scenario_parts.parts import SINK_FORMS

__all__ = ["RECOVER_MS", "header_of"]

_MACHINE_SLACK_MS = 5000
"""Tolerance for a loaded machine or disk; a later outcome counts as a violation."""
_COMMIT_MS = 20_000
"""How long the sink retries a commit."""
RECOVER_MS = 30_000
"""Time to recover after a fault: a silently lost query has a limit of 10 s, a commit is retried for 20 s."""


def header_of(order: Order, *, audited: bool) -> Mapping[str, Any]:
    """The header as a JSON object; `audited`: the rows were read from the database after the run."""
    scenario = order.scenario
    operator, expects = scenario.operator, scenario.expects.model_dump(exclude_none=True)
    return {
        "history": 1,
        "operator": {
            "mode": operator.mode,
            "capacity": operator.capacity,
            # A timeout handler that completes nothing gives no bound (A46).
            "timeout_ms": 0 if operator.on_timeout == "nothing" else operator.timeout,
            "max_tries": operator.tries,
        },
        "bounds": {
            "timeout_slack": _timeout_slack_ms(scenario),
            "recover": RECOVER_MS,
            **_checkpoint_gap(scenario),
        },
        "sink": SINK_FORMS[scenario.sink].claimed_as,
        **({"effects": "outputs"} if audited else {}),
        "fenced": True,
        **_claims_of_values(order),
        "expects": {**expects, "faults": [fault.id for fault in scenario.faults]},
        "decisive": list(scenario.decisive),
        "run": {
            "scenario": scenario.scenario,
            "seed": order.seed,
            "level": order.level,
            "sut": order.sut,
            "mutant": order.mutant,
        },
    }


def _claims_of_values(order: Order) -> Mapping[str, Any]:
    """What is claimed of the results of a key.

    Only where a record may have no expected results: where all have them, V8 compares each value anyway, and the fast
    acquittal does not know these claims. A `task` stamps each result, so that it does not depend on the key alone.
    """
    scenario = order.scenario
    is_untold = scenario.workload.expected == "untold"
    is_users = ":" in order.sut
    if is_users or not (scenario.changing or is_untold):
        return {}
    return {
        **({} if is_untold else {"expect_from": "given"}),
        "by_key": scenario.task is None,
        "versions": bool(scenario.changing),
    }


def _checkpoint_gap(scenario: Scenario) -> Mapping[str, int]:
    """The bound between checkpoints by time, claimed only without faults."""
    interval_ms = scenario.workload.checkpoint_interval
    if interval_ms is None or scenario.faults:
        return {}
    return {"checkpoint_gap": 2 * interval_ms + _drain_ms(scenario) + _MACHINE_SLACK_MS}


def _drain_ms(scenario: Scenario) -> int:
    """How long a full queue takes to drain (A66); with soft back pressure no checkpoint is taken meanwhile."""
    operator = scenario.operator
    if operator.back_pressure == "hard":
        return 0
    if operator.timeout:
        return operator.timeout
    turns = -(-operator.capacity // (operator.connections or operator.capacity))
    return turns * scenario.workload.service


def _timeout_slack_ms(scenario: Scenario) -> int:
    """How late an outcome may be: a task handles none while it commits, and faults may delay the commit."""
    commits_may_hang = any(
        fault.on_link == "sink" or fault.by == "server" or fault.delays_commits for fault in scenario.faults
    )
    return _MACHINE_SLACK_MS + (_COMMIT_MS if commits_may_hang else 0)
