"""One entry of a scenario for each kind of fault that level sim can do, and a scenario small enough for a test."""

from __future__ import annotations

from typing import Any

from harness.faults.registry import FAULTS
from harness.levels.sim.run import Simulated, simulate_scenario
from harness.scenario.model import Scenario
from harness.scenario.order import Order
from harness.sut.variant import HONEST, Variant

_LINK = {"link": "lookups"}
_SINK = {"link": "sink"}
_AT = {"at": "60ms"}
_RECORD = {"record": 20}
_KILL = {"id": "kill", "do": "kill_worker", "subtask": 0, "when": {"phase": "accept", "hit": 30}}
_SILENCE = {"id": "idle", "do": "idle_input", "subtask": 0, "for": "1500ms", "when": {"record": 4}}
_SHOWN_BY = {"store_torn": _KILL, "store_newest_missing": _KILL, "wait_timeout": _SILENCE}
"""What must happen besides: a restore, or that a client is silent."""
_SLOW = {"records": 20, "rate": "5/s", "checkpoint_every": 9}

SAMPLES: dict[str, dict[str, Any]] = {
    "latency": {**_LINK, "delay": "30ms", "for": "80ms"},
    "jitter": {**_LINK, "jitter": "30ms", "for": "80ms"},
    "one_way": {**_LINK, "delay": "30ms", "direction": "up", "for": "80ms"},
    "blackhole": {**_LINK, "for": "80ms"},
    "half_open": {**_LINK, "direction": "down", "for": "80ms"},
    "reset": {**_LINK, "for": "80ms"},
    "reset_now": _LINK,
    "reset_at_packet": {**_LINK, "packet": 3, "command": "query"},
    "cut": _LINK,
    "down": {**_LINK, "for": "80ms"},
    "flap": {**_LINK, "open": "20ms", "closed": "20ms", "for": "100ms"},
    "bandwidth": {**_LINK, "rate": "20kB/s", "for": "80ms"},
    "slow_loris": {**_LINK, "bytes": 16, "gap": "1ms", "for": "80ms"},
    "limit": {**_LINK, "bytes": 1000, "for": "80ms"},
    "refuse_connects": {**_LINK, "for": "80ms", "when": {"at": "0ms"}},
    "stalled_handshake": {**_LINK, "for": "80ms", "when": {"at": "0ms"}},
    "lost_commit": _SINK,
    "lost_commit_reply": _SINK,
    "sql_error": {**_SINK, "code": 1213, "times": 2},
    "hold_reply": {**_LINK, "for": "80ms"},
    "db_kill": {"for": "80ms"},
    "db_restart": {"for": "80ms"},
    "db_pause": {"for": "80ms"},
    "read_only": {"for": "80ms"},
    "offline_mode": {"for": "80ms"},
    "lock_rows": {"for": "80ms"},
    "deadlocks": {"for": "80ms"},
    "kill_query": {"for": "80ms"},
    "kill_connection": {"for": "80ms"},
    "max_connections": {"for": "80ms"},
    "wait_timeout": {"for": "2500ms", "delay": "1s"},
    "oversized_packet": {"for": "80ms"},
    "schema_change": {"for": "20ms"},
    "change_rows": {"count": 90, "for": "80ms"},
    "disk_full": {"for": "80ms"},
    "slow_query": {"for": "80ms", "delay": "30ms"},
    "kill_worker": {"subtask": 0, "when": {"phase": "snap.end", "hit": 2}},
    "pause_worker": {"subtask": 0, "for": "80ms"},
    "zombie": {"subtask": 0, "for": "80ms"},
    "loop_stall": {"subtask": 0, "for": "80ms"},
    "clock_jump": {"shift": "-60m", "for": "80ms"},
    "store_slow": {"delay": "50ms", "for": "80ms"},
    "store_failing": {"for": "80ms"},
    "store_torn": {"subtask": 0},
    "store_newest_missing": {"subtask": 0},
    "poison": {"subtask": 0, "how": "kills", "when": _RECORD},
    "duplicate_completion": {"subtask": 0, "times": 2, "when": _RECORD},
    "missing_completion": {"subtask": 0, "when": _RECORD},
    "answer_at_timeout": {"subtask": 0, "how": "at", "when": _RECORD},
    "hot_key": {"share": "90%", "delay": "30ms", "when": _RECORD},
    "watermark_burst": {"subtask": 0, "count": 40, "when": _RECORD},
    "idle_input": {"subtask": 0, "for": "200ms", "when": _RECORD},
}
"""What each kind needs; by time, where nothing else is said."""

STORES = tuple(name for name, kind in FAULTS.items() if "store" in kind.abilities)


def sample(*kinds: str, sink: str | None = None, **parts: Any) -> Scenario:
    """A scenario of a second or less with one fault of each of these kinds; `parts` change or add to its own."""
    needs_store = any(kind in STORES for kind in kinds)
    plain: dict[str, Any] = {
        "scenario": "sample",
        "about": "a few records of two subtasks, and a fault",
        "levels": ["sim"],
        "operator": {"mode": "ordered", "timeout": "500ms", "on_timeout": ["none"]},
        "workload": {
            "records": 60,
            "subtasks": 2,
            "rate": "400/s",
            "service": "20ms",
            "checkpoint_every": 11,
        },
        "sink": sink or ("two-phase" if needs_store else "atomic"),
        "faults": [
            *({"id": f"f{n}", "do": kind, "when": _AT, **SAMPLES[kind]} for n, kind in enumerate(kinds)),
            *(_SHOWN_BY[kind] for kind in kinds if kind in _SHOWN_BY),
        ],
        "decisive": ["V8"],
    }
    if "wait_timeout" in kinds:
        plain["workload"] |= _SLOW
    for name, value in parts.items():
        plain[name] = {**plain[name], **value} if isinstance(value, dict) else value
    return Scenario.model_validate(plain)


def simulated(scenario: Scenario, *, seed: int = 3, variant: Variant = HONEST) -> Simulated:
    """Run it."""
    return simulate_scenario(Order(scenario=scenario, level="sim", seed=seed), variant=variant)
