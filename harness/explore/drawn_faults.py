"""Draws the faults of a random scenario: kills, stops, delays, refused connections and losses.

Answers to the nemesis of a Jepsen test, drawn instead of written. Failures of single calls (a held answer, an error,
a lost reply) are faults too, so that a finding can be shrunk by removing faults. Invariant: a fault fits the sink,
task and operator, and the faults cause fewer restarts than a run allows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from harness.faults.parts.triggers import TriggerName
from harness.faults.parts.values import duration_text
from harness.faults.registry import FAULTS
from harness.scenario.model import FaultName
from harness.system.choices import Draw

_RESTARTS_MAX: Final = 2
"""A subtask may have four attempts, so one restart remains for a lost connection."""
_AT_TIMEOUT: Final = 300
"""Chance per thousand, where records have a timeout, of answers that come in its turn."""
_OFTEN_REACHED: Final = ("accept", "call", "result", "emit")
"""Phases that an attempt reaches for each record."""
_PHASES: Final = (
    "open", "accept", "call", "result", "emit", "wm", "snap.begin", "snap.mid", "snap.end", "commit.pre",
    "commit.post", "drain", "close",
)  # fmt: skip
_ALWAYS_REACHED: Final = ("accept", "call", "result", "emit", "snap.end", "commit.post", "drain")


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """The parts of the scenario that its faults must fit, as in the file."""

    operator: Mapping[str, Any]
    workload: Mapping[str, Any]
    sink: str
    by_time: bool
    """Whether checkpoints come by time; long faults are then too costly."""
    inputs: int
    """The number of inputs of the keyed task; 0: no keyed task."""

    @property
    def records(self) -> int:
        """The records of each subtask."""
        return int(self.workload["records"])

    @property
    def subtasks(self) -> int:
        return int(self.workload["subtasks"])

    @property
    def answers_timeouts(self) -> bool:
        """Whether a call that is never answered ends without failing the task."""
        return bool(self.operator.get("on_timeout", "fail") != "fail")

    @property
    def survives_errors(self) -> int:
        """How many consecutive errors of one record do not fail the task."""
        if self.operator["on_error"] == "dead-letter":
            return 3
        return int(self.operator.get("tries", 1)) - 1


Fault = dict[str, Any]
Make = Callable[[Setting, Draw], Fault]


def draw_faults(setting: Setting, draw: Draw) -> list[Fault]:
    """Between none and about six faults."""
    stops = _kills(setting, draw)
    if len(stops) < _RESTARTS_MAX and draw.chance(350):
        # Triggered at a phase or at any time, for instance in the middle of a statement.
        when = _moment(setting, draw) if draw.chance(500) else _any_time(setting, draw)
        subtask, lasts = draw.index(setting.subtasks), _ms(draw, 10, 1_500)
        stops.append({"do": "zombie", "subtask": subtask, "for": lasts, "when": when})
    may_fail = len(stops) < _RESTARTS_MAX
    makes = list(_EVERYWHERE)
    if not setting.by_time:
        makes += _LONG
    if setting.sink != "atomic":
        makes += _WITH_STORE
    if not setting.inputs:
        makes.append(_watermark_burst)
    drawn = [
        *stops,
        *[draw.one_of(*makes)(setting, draw) for _ in range(draw.one_of(0, 0, 1, 1, 2))],
        *_single_failures(setting, draw, may_fail=may_fail),
    ]
    return [
        {"id": f"{fault['do'].replace('_', '-')}-{number}", **fault} for number, fault in enumerate(drawn, 1)
    ]


def _ms(draw: Draw, low: int, high: int) -> str:
    return duration_text(draw.between(low, high))


# ------------------------------------------------------------------------------------------------- stops


def _kills(setting: Setting, draw: Draw) -> list[Fault]:
    count = draw.one_of(0, 0, 1, 1, 1, 2)
    kills = [_kill(draw.index(setting.subtasks), _moment(setting, draw), draw) for _ in range(count)]
    if len(kills) == 1 and draw.chance(250):
        phase = draw.one_of("restore.begin", "restore.mid", "restore.end", "open")
        kills.append(_kill(kills[0]["subtask"], {"phase": phase, "hit": 2 if phase == "open" else 1}, draw))
    return kills


def _kill(subtask: int, when: Fault, draw: Draw) -> Fault:
    how = draw.one_of("sigkill", "sigkill", "sigkill", "exception")
    return {"do": "kill_worker", "subtask": subtask, "how": how, "when": when}


def _moment(setting: Setting, draw: Draw) -> Fault:
    """A trigger at a phase of the subtask, with a hit count that it usually reaches."""
    return another_phase(
        draw, with_store=setting.sink != "atomic", inputs=setting.inputs, records=setting.records
    )


def another_phase(
    draw: Draw, *, with_store: bool, inputs: int, records: int, more: tuple[str, ...] = ()
) -> Fault:
    """A trigger at a phase that such an attempt reaches, or of `more`, with a hit count that it usually reaches."""
    also = [*more, *(["ack", "notify"] if with_store else []), *(["timer"] if inputs else [])]
    also += ["align"] if inputs == 2 else []  # noqa: PLR2004 - what is aligned is two
    phase = draw.one_of(*_PHASES, *_ALWAYS_REACHED, *also)
    most = records if phase in _OFTEN_REACHED else 1 if phase in {"drain", "close", "open"} else 2
    return {"phase": phase, "hit": draw.between(1, most)}


def another_moment(do: str, draw: Draw, *, records: int) -> Fault | None:
    """A trigger by call, record, time or checkpoint that a fault of kind `do` supports; None: it supports none."""
    drawn: dict[TriggerName, Fault] = {
        "call": {"call": draw.between(1, max(1, records))},
        "record": {"record": draw.between(1, records)},
        "at": {"at": _ms(draw, 0, 12 * records)},
        "checkpoint": {"checkpoint": 1},
    }
    fitting = [when for name, when in drawn.items() if name in FAULTS[do].triggers]
    return draw.one_of(*fitting) if fitting else None


# ------------------------------------------------------------------------------------------- disturbances


def _any_time(setting: Setting, draw: Draw) -> Fault:
    return {"at": _ms(draw, 0, 12 * setting.records)}


def _call(setting: Setting, draw: Draw) -> Fault:
    return {"call": draw.between(1, max(1, setting.records * setting.subtasks * 2 // 3))}


def _record(setting: Setting, draw: Draw) -> Fault:
    return {"record": draw.between(1, setting.records)}


def _on_link(do: str, *, at_once: bool = False, **fields: Callable[[Draw], object]) -> Make:
    """A fault on one of the two links, triggered by a call; with `at_once` it has no duration."""

    def make(setting: Setting, draw: Draw) -> Fault:
        link = draw.one_of("lookups", "lookups", "sink")
        lasts = {} if at_once else {"for": _ms(draw, 20, 150)}
        drawn = {name: of(draw) for name, of in fields.items()}
        return {"do": do, "link": link, **lasts, **drawn, "when": _call(setting, draw)}

    return make


def _of_server(do: str, **fields: Callable[[Draw], object]) -> Make:
    def make(setting: Setting, draw: Draw) -> Fault:
        drawn = {name: of(draw) for name, of in fields.items()}
        return {"do": do, "for": _ms(draw, 20, 300), **drawn, "when": _call(setting, draw)}

    return make


def _delay(draw: Draw) -> str:
    return _ms(draw, 20, 150)


def _direction(draw: Draw) -> str:
    return draw.one_of("up", "down")


def _of_subtask(do: str, *, low_ms: int = 20, high_ms: int = 150) -> Make:
    def make(setting: Setting, draw: Draw) -> Fault:
        lasts = _ms(draw, low_ms, high_ms)
        return {
            "do": do,
            "subtask": draw.index(setting.subtasks),
            "for": lasts,
            "when": _any_time(setting, draw),
        }

    return make


def _clock_jump(setting: Setting, draw: Draw) -> Fault:
    shift = draw.one_of("-60m", "-1s", "-40ms", "40ms", "500ms", "60m")
    lasts = _ms(draw, 50, 500)
    return {"do": "clock_jump", "how": "jump", "shift": shift, "for": lasts, "when": _record(setting, draw)}


def _idle_input(setting: Setting, draw: Draw) -> Fault:
    return {
        "do": "idle_input",
        "subtask": draw.index(setting.subtasks),
        "for": _ms(draw, 100, 600),
        "when": {"record": draw.between(2, setting.records)},
    }


def _watermark_burst(setting: Setting, draw: Draw) -> Fault:
    return {
        "do": "watermark_burst",
        "subtask": draw.index(setting.subtasks),
        "count": draw.between(2, 8),
        "when": _record(setting, draw),
    }


def _hot_key(setting: Setting, draw: Draw) -> Fault:
    del setting
    return {"do": "hot_key", "share": "90%", "delay": _ms(draw, 20, 60), "when": {"record": 1}}


_EVERYWHERE: Final[tuple[Make, ...]] = (
    _on_link("latency", delay=_delay),
    _on_link("latency", delay=_delay),
    _on_link("jitter", jitter=_delay),
    _on_link("one_way", delay=_delay, direction=_direction),
    _on_link("reset"),
    _on_link("reset_now", at_once=True),
    _on_link("cut", at_once=True),
    _on_link("down"),
    _on_link("down"),
    _on_link("refuse_connects"),
    _of_server("lock_rows"),
    _of_server("deadlocks", gap=lambda draw: _ms(draw, 5, 40)),
    _of_server("kill_query", gap=lambda draw: _ms(draw, 5, 40)),
    _of_server("kill_connection", gap=lambda draw: _ms(draw, 5, 40)),
    _of_server("read_only"),
    _of_server("db_kill"),
    _of_server("db_pause"),
    _of_server("slow_query", delay=_delay),
    _of_subtask("pause_worker"),
    _of_subtask("loop_stall"),
    _clock_jump,
    _clock_jump,
    _idle_input,
    _hot_key,
)
_LONG: Final[tuple[Make, ...]] = (
    _on_link("blackhole"),
    _on_link("blackhole"),
    _on_link("half_open", direction=_direction),
    _on_link("stalled_handshake"),
)
"""Faults that block a client until its own timeout, which takes seconds."""


def _stored(do: str, **fields: Callable[[Draw], object]) -> Make:
    def make(setting: Setting, draw: Draw) -> Fault:
        drawn = {name: of(draw) for name, of in fields.items()}
        return {"do": do, "subtask": draw.index(setting.subtasks), **drawn, "when": _any_time(setting, draw)}

    return make


_WITH_STORE: Final[tuple[Make, ...]] = (
    _stored("store_slow", **{"for": lambda draw: _ms(draw, 50, 200), "delay": _delay}),
    _stored(
        "store_failing",
        **{
            "for": lambda draw: _ms(draw, 20, 150),
            "how": lambda draw: draw.one_of("no-space", "read-only", "io-error"),
        },
    ),
)


# -------------------------------------------------------------------------- failures of single calls


def _held_answer(setting: Setting, draw: Draw) -> Fault:
    return {"do": "hold_reply", "link": "lookups", "for": _ms(draw, 50, 300), "when": _call(setting, draw)}


def _sql_error(setting: Setting, draw: Draw) -> Fault:
    link = draw.one_of("lookups", "lookups", "sink")
    code = draw.one_of(1205, 1213, 1053)
    times = draw.between(1, 3)
    return {"do": "sql_error", "link": link, "code": code, "times": times, "when": _call(setting, draw)}


def _lost_answer(setting: Setting, draw: Draw) -> Fault:
    way = _direction(draw)
    return {"do": "reset_at_packet", "link": "lookups", "direction": way, "when": _call(setting, draw)}


def _lost_commit(setting: Setting, draw: Draw) -> Fault:
    del setting
    do = draw.one_of("lost_commit", "lost_commit_reply", "lost_commit_reply")
    return {"do": do, "link": "sink", "nth": draw.between(1, 4), "when": {"at": "0ms"}}


def _poison(setting: Setting, draw: Draw) -> Fault:
    """An error of one record's calls; fails the task once if the operator does not survive errors."""
    subtask = draw.index(setting.subtasks)
    times = draw.between(1, max(1, setting.survives_errors))
    return {
        "do": "poison",
        "subtask": subtask,
        "how": "raises",
        "times": times,
        "when": _record(setting, draw),
    }


def _no_answer(setting: Setting, draw: Draw) -> Fault:
    subtask, when = draw.index(setting.subtasks), _record(setting, draw)
    if draw.chance(500):
        return {"do": "poison", "subtask": subtask, "how": "silent", "when": when}
    return {"do": "missing_completion", "subtask": subtask, "when": when}


def _second_answer(setting: Setting, draw: Draw) -> Fault:
    times = draw.between(1, 4)
    return {
        "do": "duplicate_completion",
        "subtask": draw.index(setting.subtasks),
        "times": times,
        "when": _record(setting, draw),
    }


def answers_at_timeouts(operator: Mapping[str, Any], workload: Mapping[str, Any], draw: Draw) -> list[Fault]:
    """Sometimes a fault by which answers of a subtask race with their records' timeouts, if there are any."""
    setting = Setting(operator=operator, workload=workload, sink="", by_time=False, inputs=0)
    is_final = setting.answers_timeouts or operator.get("tries", 1) == 1
    if "timeout" not in operator or not is_final or not draw.chance(_AT_TIMEOUT):
        return []
    turns = ("before", "at", "at", "after") if setting.answers_timeouts else ("before", "at")
    return [
        {
            "id": "answer-at-timeout",
            "do": "answer_at_timeout",
            "how": draw.one_of(*turns),
            "subtask": draw.index(setting.subtasks),
            "times": draw.between(1, 4),
            "when": _record(setting, draw),
        }
    ]


def _single_failures(setting: Setting, draw: Draw, *, may_fail: bool) -> list[Fault]:
    """Failures of single calls and commits; with `may_fail` an error may fail the task once."""
    makes: list[Make] = [_held_answer, _held_answer, _sql_error, _lost_answer, _lost_commit, _lost_commit]
    makes.append(_second_answer)
    if setting.survives_errors:
        makes += [_poison, _poison]
    elif may_fail and draw.chance(100):
        return [_poison(setting, draw)]
    if setting.answers_timeouts:
        makes.append(_no_answer)
    return [draw.one_of(*makes)(setting, draw) for _ in range(draw.one_of(0, 0, 1, 2, 3))]


# ------------------------------------------------------------------------------------ what is drawn rarely


def draw_rare_faults(
    operator: Mapping[str, object], workload: Mapping[str, object], sink: str, draw: Draw, *, stops: int
) -> list[Fault]:
    """One or two faults that are costly, or that show something only together; `stops`: of attempts, so far."""
    setting = Setting(operator=operator, workload=workload, sink=sink, by_time=False, inputs=0)
    makes: list[Callable[[Setting, Draw], list[Fault]]] = [_alone, _alone, _shut_circuit, _long_pauses]
    if sink != "atomic" and stops < _RESTARTS_MAX:
        makes.append(_lost_checkpoint)
    if setting.answers_timeouts:
        makes.append(_errors_again_and_again)
    return draw.one_of(*makes)(setting, draw)


_RARE: Final[tuple[Make, ...]] = (
    _on_link("bandwidth", rate=lambda draw: f"{draw.one_of(1, 8, 64)}kB/s"),
    _on_link("flap", open=lambda draw: _ms(draw, 5, 40), closed=lambda draw: _ms(draw, 5, 40)),
    _on_link("slow_loris", bytes=lambda draw: draw.between(1, 16), gap=lambda draw: _ms(draw, 1, 20)),
    _on_link("limit", bytes=lambda draw: draw.between(1, 700)),
    _of_server("db_restart"),
    _of_server("max_connections"),
    _of_server("offline_mode"),
    _of_server("disk_full"),
    _of_server("wait_timeout", delay=lambda draw: draw.one_of("1s", "2s")),
)


def _alone(setting: Setting, draw: Draw) -> list[Fault]:
    return [draw.one_of(*_RARE)(setting, draw)]


def _shut_circuit(setting: Setting, draw: Draw) -> list[Fault]:
    """Connects are refused for so long that the pool's circuit opens, and the open connections end."""
    when = _call(setting, draw)
    refused = {"do": "refuse_connects", "link": "lookups", "for": _ms(draw, 500, 4_000), "when": when}
    return [
        refused,
        {"do": "reset_now", "link": "lookups", "when": {"call": when["call"] + draw.between(0, 2)}},
    ]


def _long_pauses(setting: Setting, draw: Draw) -> list[Fault]:
    """Subtasks stand still at a phase, some of them longer than a restart or a transaction of the sink takes."""
    phases = ("commit.pre", "commit.post", "snap.begin", "snap.end")
    return [
        {
            "do": "pause_worker",
            "subtask": subtask,
            "for": draw.one_of("300ms", "5s", "26s"),
            "when": {"phase": draw.one_of(*phases), "hit": draw.between(1, 3)},
        }
        for subtask in range(min(2, setting.subtasks))
    ]


def _lost_checkpoint(setting: Setting, draw: Draw) -> list[Fault]:
    """A file of the checkpoint store is torn, or missing; a kill lets its successor look for it."""
    subtask = draw.index(setting.subtasks)
    when = another_phase(draw, with_store=True, inputs=0, records=setting.records, more=("store",) * 6)
    kill = _kill(subtask, when, draw)
    do = draw.one_of("store_torn", "store_newest_missing")
    return [{"do": do, "subtask": subtask, "when": {"phase": "open", "hit": 2}}, kill]


def _errors_again_and_again(setting: Setting, draw: Draw) -> list[Fault]:
    """The lookups' statement is refused for a while, so that records run out of tries, or time out."""
    lasts = _ms(draw, 50, 400)
    return [{"do": "schema_change", "how": "column", "for": lasts, "when": _call(setting, draw)}]


DRAWN_FAULTS: Final[tuple[FaultName, ...]] = (
    "kill_worker", "zombie", "pause_worker", "loop_stall", "clock_jump", "poison", "missing_completion",
    "duplicate_completion", "idle_input", "hot_key", "watermark_burst", "hold_reply", "sql_error", "reset_at_packet",
    "lost_commit", "lost_commit_reply", "latency", "jitter", "one_way", "blackhole", "half_open", "stalled_handshake",
    "reset", "reset_now", "cut", "down", "refuse_connects", "lock_rows", "deadlocks", "kill_query", "kill_connection",
    "read_only", "db_kill", "db_pause", "slow_query", "store_slow", "store_failing", "change_rows", "bandwidth", "flap",
    "slow_loris", "limit", "db_restart", "max_connections", "offline_mode", "disk_full", "wait_timeout", "store_torn",
    "store_newest_missing", "schema_change", "answer_at_timeout",
)  # fmt: skip
"""Every kind of fault that is drawn."""

OF_THE_WORKLOAD: Final = frozenset(name for name in DRAWN_FAULTS if FAULTS[name].by == "workload")
"""The kinds of faults that count the records of a subtask, which a rescale deals anew."""
