"""The kinds of faults as a scenario may write them: for each, which fields it needs and takes, and what may begin it.

Answers to Jepsen's list of nemeses, as a table of forms. Invariant: this table alone says what a file may hold
(`harness.faults` says what each does), so a fault that is refused here is refused before anything runs.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from harness.scenario_parts import Level
from harness.scenario_triggers import TriggerName

__all__ = ["FAULT_FORMS", "OWN_FIELDS", "Ability", "By", "FaultForm", "FaultName", "kinds_by"]

FaultName = Literal[
    "latency", "jitter", "one_way", "blackhole", "half_open", "reset", "reset_now", "reset_at_packet", "cut", "down",
    "flap", "bandwidth", "slow_loris", "limit", "refuse_connects", "stalled_handshake", "lost_commit",
    "lost_commit_reply", "sql_error", "hold_reply",
    "db_kill", "db_restart", "db_pause", "read_only", "offline_mode", "lock_rows", "deadlocks", "kill_query",
    "kill_connection", "max_connections", "wait_timeout", "oversized_packet", "schema_change", "disk_full",
    "server_clock", "slow_query",
    "kill_worker", "pause_worker", "zombie", "pause_executor",
    "loop_stall", "clock_jump", "store_slow", "store_failing", "store_torn", "store_newest_missing",
    "poison", "duplicate_completion", "missing_completion", "hot_key", "watermark_burst", "idle_input",
]  # fmt: skip

By = Literal["link", "server", "process", "inside", "workload"]
"""Where a fault acts: on a link of the proxy, on the database server, on a worker's process, inside the attempt, or
in what the source sends and the adapter answers."""

Ability = Literal[
    "packets", "server-process", "offline-mode", "small-disk", "server-clock", "executor", "superseding", "two-phase",
    "store",
]  # fmt: skip
"""What not every world, sink or level has."""

OWN_FIELDS = (
    "link", "direction", "delay", "jitter", "rate", "bytes", "gap", "open", "closed", "command", "statement", "packet",
    "nth", "times", "code", "connections", "count", "share", "how", "shift", "subtask", "for", "repeat", "every",
)  # fmt: skip
"""The fields that not every kind of fault has."""

_OUTSIDE: tuple[TriggerName, ...] = ("at", "between", "checkpoint", "call", "record")
_ATTEMPTS_OWN: tuple[TriggerName, ...] = ("at", "between", "checkpoint", "record", "phase")
_CYCLES = ("repeat", "every")


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultForm:
    """How one kind of fault is written."""

    by: By
    needs: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()
    triggers: tuple[TriggerName, ...] = _OUTSIDE
    hows: tuple[str, ...] = ()
    """What `how` may be, where it is a field; the first is meant if it is absent."""
    codes: tuple[int, ...] = ()
    """What `code` may be, where it is a field."""
    abilities: tuple[Ability, ...] = ()
    levels: tuple[Level, ...] = get_args(Level)


def _link(
    *needs: str,
    takes: tuple[str, ...] = (),
    packets: bool = False,
    codes: tuple[int, ...] = (),
) -> FaultForm:
    abilities: tuple[Ability, ...] = ("packets",) if packets else ()
    return FaultForm(
        by="link", needs=("link", *needs), takes=(*takes, *_CYCLES), abilities=abilities, codes=codes
    )


def _server(
    *needs: str, takes: tuple[str, ...] = (), hows: tuple[str, ...] = (), abilities: tuple[Ability, ...] = ()
) -> FaultForm:
    return FaultForm(by="server", needs=needs, takes=(*takes, *_CYCLES), hows=hows, abilities=abilities)


def _inside(
    *needs: str,
    takes: tuple[str, ...] = (),
    hows: tuple[str, ...] = (),
    abilities: tuple[Ability, ...] = (),
) -> FaultForm:
    return FaultForm(
        by="inside", needs=needs, takes=takes, triggers=_ATTEMPTS_OWN, hows=hows, abilities=abilities
    )


def _workload(*needs: str, takes: tuple[str, ...] = (), hows: tuple[str, ...] = ()) -> FaultForm:
    return FaultForm(by="workload", needs=needs, takes=takes, triggers=("record",), hows=hows)


_PACKETS = ("command", "statement", "nth", "times")
"""Which messages a fault of packets picks."""

FAULT_FORMS: dict[FaultName, FaultForm] = {
    "latency": _link("for", "delay", takes=("jitter", "direction")),
    "jitter": _link("for", "jitter", takes=("direction",)),
    "one_way": _link("for", "delay", "direction"),
    "blackhole": _link("for", takes=("direction",)),
    "half_open": _link("for", "direction", packets=True),
    "reset": _link("for"),
    "reset_now": _link(packets=True),
    "reset_at_packet": _link(takes=("direction", *_PACKETS, "packet", "bytes", "for"), packets=True),
    "cut": _link(),
    "down": _link("for"),
    "flap": _link("for", "open", "closed"),
    "bandwidth": _link("for", "rate", takes=("direction",)),
    "slow_loris": _link("for", "bytes", "gap", takes=("direction",)),
    "limit": _link("for", "bytes", takes=("direction",)),
    "refuse_connects": _link("for", packets=True),
    "stalled_handshake": _link("for", packets=True),
    "lost_commit": _link(takes=("nth", "times", "for"), packets=True),
    "lost_commit_reply": _link(takes=("nth", "times", "for"), packets=True),
    "sql_error": _link("code", takes=(*_PACKETS, "for"), packets=True, codes=(1040, 1053, 1205, 1213, 1290)),
    "hold_reply": _link("for", takes=(*_PACKETS, "packet"), packets=True),
    "db_kill": _server(takes=("for",), abilities=("server-process",)),
    "db_restart": _server(takes=("for",), abilities=("server-process",)),
    "db_pause": _server("for", abilities=("server-process",)),
    "read_only": _server("for"),
    "offline_mode": _server("for", abilities=("offline-mode",)),
    "lock_rows": _server("for", takes=("link", "count")),
    "deadlocks": _server("for", takes=("gap", "count")),
    "kill_query": _server("for", takes=("link", "gap", "count")),
    "kill_connection": _server("for", takes=("gap", "count")),
    "max_connections": _server("for", takes=("connections",)),
    "wait_timeout": _server("for", takes=("delay",)),
    "oversized_packet": _server("for", takes=("bytes",)),
    "schema_change": _server("for", takes=("how",), hows=("column", "table")),
    "disk_full": _server("for", abilities=("small-disk",)),
    "server_clock": FaultForm(
        by="server",
        needs=("for", "shift"),
        takes=_CYCLES,
        abilities=("server-clock",),
        levels=("live", "spark"),
    ),
    "slow_query": _server("for", "delay"),
    "kill_worker": FaultForm(
        by="process",
        needs=("subtask",),
        takes=("how",),
        triggers=("phase",),
        hows=("sigkill", "sigsegv", "exit", "exception"),
    ),
    "pause_worker": FaultForm(
        by="process", needs=("subtask", "for"), takes=_CYCLES, triggers=(*_OUTSIDE, "phase")
    ),
    "zombie": FaultForm(
        by="process",
        needs=("subtask", "for"),
        triggers=(*_OUTSIDE, "phase"),
        abilities=("superseding",),
        levels=("sim", "live"),
    ),
    "pause_executor": FaultForm(
        by="process", needs=("for",), takes=_CYCLES, abilities=("executor",), levels=("spark",)
    ),
    "loop_stall": _inside("subtask", "for", takes=_CYCLES),
    "clock_jump": _inside(takes=("how", "shift", "subtask", "for"), hows=("jump", "freeze", "smear")),
    "store_slow": _inside("delay", "for", takes=("subtask",), abilities=("store",)),
    "store_failing": _inside(
        "for", takes=("subtask", "how"), hows=("no-space", "read-only", "io-error"), abilities=("store",)
    ),
    "store_torn": _inside("subtask", takes=("times",), abilities=("store",)),
    "store_newest_missing": _inside("subtask", takes=("times",), abilities=("store",)),
    "poison": _workload("subtask", "how", takes=("times",), hows=("raises", "silent", "kills")),
    "duplicate_completion": _workload("subtask", takes=("times",)),
    "missing_completion": _workload("subtask", takes=("times",)),
    "hot_key": _workload("share", "delay", takes=("subtask", "count")),
    "watermark_burst": _workload("count", takes=("subtask",)),
    "idle_input": _workload("subtask", "for"),
}


def kinds_by(*groups: By) -> tuple[FaultName, ...]:
    """The kinds that act there, in the order of the table."""
    return tuple(name for name, form in FAULT_FORMS.items() if form.by in groups)
