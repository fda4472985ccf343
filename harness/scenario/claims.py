"""The header of a run's history: the properties that the run claims; the same at every level.

Documented in `docs/reference/history.md` (Header). Invariant: claims come from the settings of operator, sink and
level, not from the run's result: a table that could not be read after the run is claimed too, and leaves its invariant
`unknown`.
"""

from __future__ import annotations

from collections.abc import Mapping

from harness.database.coordinated_sink import PARTS_KEPT
from harness.faults.parts.parts import SINK_FORMS, OwnEffects
from harness.scenario.model import Scenario
from harness.scenario.order import Order
from harness.scenario.plan import Expected, Runner
from harness.system.json_types import JsonView
from harness.system.levels import LEVELS

OUTPUTS = "output"
DEAD_LETTERS = "dead_letter"
AUDIT = "audit"

_COMMIT_MS = 20_000
"""How long the sink retries a commit."""
_SERVICE_MS = 3000
"""Our pool's longest way back: a connect that hangs for 2 s, then 0.4 s until its circuit makes a trial connect."""
_UNSERVED_PERCENT = 5
"""How many calls in a hundred may fail behind that, where time is exact."""
RECOVER_MS = 30_000
"""Time to recover after a fault: a silently lost query has a limit of 10 s, a commit is retried for 20 s."""


def header_of(order: Order, *, expected: Expected | None = None) -> JsonView:
    """The header as a JSON object. `expected`: what is known of the results of a user's lookup."""
    scenario = order.scenario
    operator, expects = scenario.operator, scenario.expects.model_dump(exclude_none=True)
    is_keyed = operator.mode == "keyed"
    return {
        "history": 1,
        "operator": {
            # An operator that keeps the order of each key is an unordered one besides.
            "mode": "unordered" if is_keyed else operator.mode,
            **({"per_key_order": True} if is_keyed else {}),
            "capacity": operator.capacity,
            # A timeout handler that completes nothing gives no bound (A46).
            "timeout_ms": 0 if operator.on_timeout == "nothing" else operator.timeout,
            "max_tries": operator.tries,
            **_retry(order),
            "on_error": "dead" if operator.on_error == "dead-letter" else "fail",
            **_on_timeout(scenario),
        },
        "bounds": {
            "timeout_slack": _slack_ms(order),
            "timer_resolution": LEVELS[order.level].timer_resolution_ms,
            "recover": RECOVER_MS,
            **_checkpoint_gap(order),
            **_service_after(order),
        },
        "sink": "rollback" if order.runner == "stateful" else SINK_FORMS[scenario.sink].claimed_as,
        "effects": "outputs" if scenario.effects is None else "records",
        "fenced": True,
        **_checkpoints(order),
        "tables": _tables_of_state(scenario) if order.runner == "stateful" else _tables(scenario),
        **_expect_from(order, expected),
        "raised": True,
        **({"substitute": on_timeout} if isinstance(on_timeout := operator.on_timeout, list) else {}),
        # With a planted defect the reader is judged as well; a contradiction without one is a defect of the harness.
        **({} if order.mutant is None else {"fixed_source": True}),
        "explained": "together" if LEVELS[order.level].restarts_together else "alone",
        **_claims_by_key(order, expected),
        "expects": {
            **expects,
            **({"rescales": len(scenario.rescales)} if scenario.rescales else {}),
            "faults": [fault.id for fault in scenario.faults],
        },
        "decisive": [name for name in scenario.decisive if name not in _NOT_CLAIMED[order.runner]],
        "run": {
            "scenario": scenario.scenario,
            "seed": order.seed,
            "level": order.level,
            **({} if order.runner == "continuous" else {"runner": order.runner}),
            "sut": order.sut,
            "mutant": order.mutant,
        },
    }


def _tables_of_state(scenario: Scenario) -> JsonView:
    """Where rows of a batch that is run again replace the first ones, which the audit still has: it is left out."""
    tables = _tables(scenario)
    return {name: holds for name, holds in tables.items() if name != AUDIT}


_NOT_CLAIMED: Mapping[Runner, frozenset[str]] = {
    "continuous": frozenset(),
    "micro-batch": frozenset(),
    "stateful": frozenset({"V12", "V13"}),
}
"""What a runner's sink does not promise: one that replaces a batch shows it twice."""


def _expect_from(order: Order, expected: Expected | None) -> Mapping[str, str]:
    """Where the expected results are from; of our own lookup the scenario gives them, unless it tells none."""
    if _is_users(order):
        return {} if expected is None else {"expect_from": expected.source}
    return {} if order.scenario.workload.expected == "untold" else {"expect_from": "given"}


def own_table(effects: OwnEffects) -> str:
    """What the history calls the table that the lookup writes to: its name, unless a table of the run has that."""
    is_taken = effects.table in {OUTPUTS, DEAD_LETTERS, AUDIT}
    return f"{effects.table} of the lookup" if is_taken else effects.table


def _claims_by_key(order: Order, expected: Expected | None) -> Mapping[str, bool]:
    """What is claimed of the results of a key: of our own lookup where a record may have no expected results.

    Where all have them, V8 compares each value anyway. A `task` stamps each result, which then does not depend on the
    key alone.
    """
    scenario = order.scenario
    if _is_users(order):
        if expected is None or not expected.by_key:
            return {}
    elif not (scenario.changing or scenario.workload.expected == "untold"):
        return {}
    return {"by_key": scenario.task is None, "versions": bool(scenario.changing)}


def _is_users(order: Order) -> bool:
    return ":" in order.sut


def _tables(scenario: Scenario) -> JsonView:
    """The tables that are read after the run (`harness.database.endpoint`).

    `ordered`: a subtask has one writer at a time, whose inserts follow the order of its outputs, so its rows' `seq`
    does too. With keys it does not: the row of a replayed output keeps its first place. Where the lookup writes, its
    effects are the rows of its own table, and those of the sink are outputs alone.
    """
    if scenario.effects is not None:
        keyed = SINK_FORMS[scenario.sink].has_output_key
        return {
            OUTPUTS: {
                "holds": ["outputs"],
                **({"keep": "first"} if keyed else {"keep": "all", "ordered": True}),
            },
            DEAD_LETTERS: {"holds": ["dead"], "keep": "first" if keyed else "all"},
            own_table(scenario.effects): {"holds": ["effects"], "keep": "all"},
        }
    if SINK_FORMS[scenario.sink].has_output_key:
        return {
            OUTPUTS: {"holds": ["outputs", "effects"], "keep": "first"},
            DEAD_LETTERS: {"holds": ["dead"], "keep": "first"},
            AUDIT: {"holds": ["audit"]},
        }
    return {
        OUTPUTS: {"holds": ["outputs", "effects"], "keep": "all", "ordered": True},
        DEAD_LETTERS: {"holds": ["dead"], "keep": "all"},
        AUDIT: {"holds": ["audit"]},
    }


def _retry(order: Order) -> JsonView:
    """The retry strategy; a dead letter is the failure behind it, so only failures are retried."""
    operator = order.scenario.operator
    if operator.tries == 1:
        return {}
    growing = operator.retry_multiplier is not None
    return {
        "retry": {
            "backoff": "exponential" if growing else "fixed",
            "initial_ms": operator.first_delay_ms,
            **(
                {"multiplier": operator.retry_multiplier, "max_ms": operator.longest_delay_ms}
                if growing
                else {}
            ),
            "slack_ms": _slack_ms(order),
            "on": ["fail"],
            "at_end": "once",
            "profile": "strict",
        }
    }


def _checkpoints(order: Order) -> Mapping[str, int]:
    """Where barriers stand, and how many completed checkpoints are kept; a failover may lose some of those.

    The other runners of Spark cut where their batches end, and restore what Spark kept.
    """
    scenario = order.scenario
    if order.runner != "continuous":
        return {}
    every = scenario.workload.checkpoint_every
    keeps = {} if scenario.has_two_servers else {"keeps": 1 if scenario.sink == "atomic" else PARTS_KEPT}
    return keeps if every is None else {"barrier_every": every, **keeps}


def _on_timeout(scenario: Scenario) -> Mapping[str, str]:
    """The policy for timeouts; a handler that completes nothing has none. A failed timeout is a failure like any."""
    match scenario.operator.on_timeout:
        case "nothing":
            return {}
        case "fail":
            return {"on_timeout": "dead" if scenario.operator.on_error == "dead-letter" else "fail"}
        case "dead-letter":
            return {"on_timeout": "dead"}
        case _:
            return {"on_timeout": "substitute"}


def _checkpoint_gap(order: Order) -> Mapping[str, int]:
    """The bound between two checkpoints: the scenario's, else, without faults, that of checkpoints by time."""
    scenario, slack_ms = order.scenario, LEVELS[order.level].slack_ms
    if scenario.workload.checkpoint_gap is not None:
        return {"checkpoint_gap": scenario.workload.checkpoint_gap + slack_ms}
    interval_ms = scenario.workload.checkpoint_interval
    if interval_ms is None or scenario.faults:
        return {}
    return {"checkpoint_gap": 2 * interval_ms + _drain_ms(scenario) + slack_ms}


def _service_after(order: Order) -> Mapping[str, int]:
    """When calls must be answered again, where a policy hides that they are not; else a task that fails shows it.

    Not where the backlog of an outage alone can make calls time out, and not of a client that a scenario plants as a
    mistake. A user's lookup may have a client of its own, with its own limits: it has the time of any recovery.
    """
    scenario = order.scenario
    operator = scenario.operator
    hides = operator.on_error == "dead-letter" or operator.on_timeout != "fail"
    turns = -(-operator.capacity // operator.pool_size)
    is_slow = operator.timeout and 2 * turns * scenario.workload.service > operator.timeout
    if not scenario.faults or not hides or is_slow or operator.downstream is not None or operator.mistake:
        return {}
    level = LEVELS[order.level]
    after_ms = RECOVER_MS if _is_users(order) else _SERVICE_MS + level.slack_ms
    # A real machine may keep some calls waiting for so long that they fail.
    return {"service_after": after_ms, **({"unserved": _UNSERVED_PERCENT} if level.tells_waits else {})}


def _drain_ms(scenario: Scenario) -> int:
    """How long a full queue takes to drain (A66); with soft back pressure no checkpoint is taken meanwhile."""
    operator = scenario.operator
    if operator.back_pressure == "hard":
        return 0
    if operator.timeout:
        return operator.timeout
    turns = -(-operator.capacity // (operator.connections or operator.capacity))
    return turns * scenario.workload.service


def _slack_ms(order: Order) -> int:
    """How late an outcome may be: a task handles none while it commits, and faults may delay the commit.

    Where each such wait is an event `held`, V15 allows for it by itself.
    """
    level = LEVELS[order.level]
    is_delayed = not level.tells_waits and any(fault.may_delay_commits for fault in order.scenario.faults)
    return level.slack_ms + (_COMMIT_MS if is_delayed else 0)
