"""Draws random scenarios, varied enough that a few hundred of them exercise every part of an operator.

Answers to the options that TigerBeetle's `vopr` draws. Invariant: equal seeds give equal scenarios; each keeps the
rules of the scenario model, and a correct operator can finish it: every fault ends or is answered by a restart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from harness.explore.drawn_faults import (
    OF_THE_WORKLOAD,
    Setting,
    answers_at_timeouts,
    draw_faults,
    draw_rare_faults,
)
from harness.faults.parts.parts import LEAST_IDLE, OF_ALIGNED_BARRIERS
from harness.faults.parts.values import duration_ms, duration_text
from harness.faults.registry import FAULTS
from harness.scenario.model import Scenario
from harness.system.choices import Draw
from harness.system.json_types import Json

_CALM: Final = 30
_KEYED: Final = 120
_BY_TIME: Final = 450
"""Chances per thousand: a calm scenario, a keyed task, checkpoints by time (with an atomic sink)."""
_FAILING: Final = 350
"""Chance per thousand of planned failures, where records have several tries or become dead letters."""
_IN_FRONT: Final = 350
_OVERTAKING: Final = 500
"""Chances per thousand: a second operator in front of the lookups, an alignment timeout."""
_CATCHING_UP: Final = 700
_JOINED: Final = 700
"""Chances per thousand, of inputs that fall idle: they wake up behind, if idle for long; the task behind shows it."""
_SLOW_BESIDE_ZOMBIES: Final = 600
"""Chance per thousand, with a zombie, of a slow input: its successor must still run when it wakes up."""
_BY_KEY: Final = 200
"""Chance per thousand of an operator that keeps the order of each key instead of the drawn order."""
_OTHER_KEYS: Final = 400
_CHANGING: Final = 250
"""Chances per thousand: keys that a careless lookup confuses, rows that change during the run."""
_RESCALED: Final = 50
_RARE: Final = 200
_ODD: Final = 60
"""Chances per thousand: a restart with another number of subtasks, faults that are drawn rarely, odd rows."""
_UNLIMITED: Final = 300
_FAR: Final = 250
"""Chances per thousand, where a timeout cannot fail the task: a growing backoff that only it limits, a fixed one that
is several times as long.
"""
_LONG_QUEUE: Final = 100
_DENSE: Final = 80
"""Chances per thousand: more than eight slots, a checkpoint at each element of an input."""
_AT_ONCE: Final = 100_000
"""A rate at which all elements of these short inputs are due at once."""
_SUBSTITUTE: Final = "substitute"
_QUICK_MS: Final = 60
"""The longest undisturbed lookup, except in calm scenarios."""
_SLOW_MS: Final = 9_000
"""The lookup of a calm scenario: below the pool's query timeout, slow enough to keep a small queue full."""


def draw_scenario(seed: int) -> Scenario:
    """The random scenario of a seed."""
    return scenario_by(lambda purpose: Draw(seed, purpose), name=f"random-{seed}", about=f"seed {seed}")


def scenario_by(
    draw_for: Callable[[str], Draw],
    *,
    name: str,
    about: str,
    adapt: Callable[[Json], None] = lambda drawn: None,
) -> Scenario:
    """The scenario that the streams of `draw_for` (by purpose) make; `adapt` may change its fields before the rules.

    Raises ValidationError if they break a rule of the model.
    """
    draw = draw_for("scenario")
    is_calm = draw.chance(_CALM)
    drawn = _calm(draw) if is_calm else _disturbed(draw)
    _plan_failures(drawn["operator"], drawn["workload"], draw_for("planned failures"))
    _choose_keys(drawn, draw_for("what the keys are"))
    if not is_calm:
        _change_rows(drawn, draw_for("changes of the looked-up rows"))
    _put_in_front(drawn, draw_for("what stands in front of the lookups"))
    _let_show_idleness(drawn, draw_for("inputs that wake up"))
    if draw_for("order by key").chance(_BY_KEY):
        drawn["operator"]["mode"] = "keyed"
    if not is_calm:
        drawn["faults"] += answers_at_timeouts(
            drawn["operator"], drawn["workload"], draw_for("answers at the timeout")
        )
        _stretch(drawn, draw_for("long queues and dense checkpoints"))
        _let_be_rare(drawn, draw_for("what is rare"))
    adapt(drawn)
    workload, faults = drawn["workload"], list(_with_something_left(drawn["faults"]))
    return Scenario.model_validate(
        {
            "scenario": name,
            "about": f"A random run, drawn with {about}.",
            "tags": ["random"],
            "levels": levels_of(faults),
            **drawn,
            "faults": faults,
            "decisive": ["V9"],
            "expects": {"records": workload["records"] * workload["subtasks"], "checkpoints": 1},
        }
    )


def levels_of(faults: list[Json]) -> list[str]:
    """Where a drawn scenario with these faults can run."""
    return [
        level for level in ("sim", "live") if all(level in FAULTS[fault["do"]].levels for fault in faults)
    ]


def _with_something_left(faults: list[Json]) -> Iterator[Json]:
    """Without a second kill at the moment of another one, which would find nothing to act on."""
    moments: list[Any] = []
    for fault in faults:
        moment = (fault.get("subtask"), fault["when"]) if FAULTS[fault["do"]].acts_alone else None
        if moment is None or moment not in moments:
            yield fault
        moments.append(moment)


def _let_be_rare(drawn: Json, draw: Draw) -> None:
    """Odd rows, rescales, and faults that last long or need more than one to show something."""
    if draw.chance(_ODD):
        drawn["workload"]["rows_like"] = "odd"
    if draw.chance(_RESCALED):
        _rescale(drawn, draw)
    elif draw.chance(_RARE):
        stops = sum(fault["do"] in {"kill_worker", "zombie"} for fault in drawn["faults"])
        faults = draw_rare_faults(drawn["operator"], drawn["workload"], drawn["sink"], draw, stops=stops)
        drawn["faults"] += [
            {"id": f"rare-{fault['do'].replace('_', '-')}-{number}", **fault}
            for number, fault in enumerate(faults, 1)
        ]
        drawn["budget"] = "5m"


def _rescale(drawn: Json, draw: Draw) -> None:
    """One or two restarts with another number of subtasks; what they do not allow is left out."""
    workload, task = drawn["workload"], drawn.get("task")
    if "checkpoint_every" not in workload or (task is not None and drawn["sink"] == "idempotent"):
        return
    drawn["operator"].pop("upstream", None)
    workload |= {"records": max(12, workload["records"]), "checkpoint_every": draw.between(3, 6)}
    workload |= {"watermarks": "rising", "reuses_objects": False}
    if task is not None:
        drawn["task"] = {"inputs": task["inputs"], "gap": task["gap"]}
    drawn["faults"] = [fault for fault in drawn["faults"] if fault["do"] not in OF_THE_WORKLOAD]
    steps, count, checkpoint = [], workload["subtasks"], 0
    for _ in range(draw.one_of(1, 1, 2)):
        count = draw.one_of(*(to for to in range(1, 5) if to != count))
        checkpoint += draw.between(1, 2)
        steps.append({"at": {"checkpoint": checkpoint}, "to": count})
    drawn["rescale"] = steps


def _stretch(drawn: Json, draw: Draw) -> None:
    """Queues of more slots than records are usually in flight, and a checkpoint at each element."""
    if draw.chance(_LONG_QUEUE):
        drawn["operator"]["capacity"] = draw.one_of(9, 16, 40)
    if "checkpoint_every" in drawn["workload"] and "task" not in drawn and draw.chance(_DENSE):
        drawn["workload"]["checkpoint_every"] = 1


def _choose_keys(drawn: Json, draw: Draw) -> None:
    """Other keys than small numbers, more records of one key, larger rows; a `task` and `hot_key` need numbers."""
    workload = drawn["workload"]
    needs_numbers = "task" in drawn or any(fault["do"] == "hot_key" for fault in drawn["faults"])
    if draw.chance(_OTHER_KEYS):
        texts = () if needs_numbers else ("unicode", "composite")
        workload["keys_like"] = draw.one_of("wide", "signed", *texts)
    if draw.chance(150):
        workload["skew"] = f"{draw.one_of(20, 50, 90)}%"
    if draw.chance(150):
        workload["row_bytes"] = draw.one_of(1, 1_000, 70_000)


def _change_rows(drawn: Json, draw: Draw) -> None:
    """A fault that changes the rows of some keys, where a record may yield other results after a restart."""
    workload, faults = drawn["workload"], drawn["faults"]
    if drawn["sink"] == "idempotent" or not draw.chance(_CHANGING):
        return
    workload["keys"] = draw.between(2, 5)  # so few that a key is asked for before and after
    lasts_ms = draw.between(100, 500)  # lookups that end in this time are the evidence
    every_ms = lasts_ms + draw.between(1, 50)
    change = {
        "id": f"change-rows-{len(faults) + 1}",
        "do": "change_rows",
        "count": draw.between(1, max(1, workload["keys"] // 2)),
        "for": duration_text(lasts_ms),
        "when": {"call": draw.between(1, max(1, workload["records"]))},
    }
    due_ms = workload["records"] * 1_000 // int(workload["rate"].removesuffix("/s"))
    changes = min(4, due_ms // every_ms)
    if changes > 1:
        change |= {"repeat": changes, "every": duration_text(every_ms)}
    faults.append(change)


def _put_in_front(drawn: Json, draw: Draw) -> None:
    """An operator in front of the lookups, or barriers that may overtake, where either can be."""
    operator, task = drawn["operator"], drawn.get("task")
    by_place = "checkpoint_every" in drawn["workload"]
    if operator.get("back_pressure") == "hard" and by_place and draw.chance(_IN_FRONT):
        operator["upstream"] = {"capacity": draw.between(1, 6), "delay": duration_text(draw.between(0, 40))}
    waits_to_align = any(fault["when"].get("phase") == "align" for fault in drawn["faults"])
    is_even = task is not None and task["inputs"] > 1 and "lag" not in task
    if task is not None and is_even and not waits_to_align and draw.chance(_OVERTAKING):
        for name in OF_ALIGNED_BARRIERS:
            task.pop(name, None)
        task["alignment_timeout"] = duration_text(draw.one_of(0, 0, 5, 40))


def _let_show_idleness(drawn: Json, draw: Draw) -> None:
    """Inputs that wake up behind, where they are idle for long enough; a task behind that shows when all are idle."""
    task = drawn.get("task", {})
    if task.get("idle", 0) >= LEAST_IDLE and draw.chance(_CATCHING_UP):
        task["catch_up"] = draw.between(1, task["idle"] - 1)
    substitutes = isinstance(drawn["operator"].get("on_timeout"), list)
    changes = any(fault["do"] == "change_rows" for fault in drawn["faults"])
    is_told = drawn["workload"]["expected"] == "told" and not substitutes and not changes
    if task.get("idle", 0) and is_told and draw.chance(_JOINED):
        task["joined"] = duration_text(draw.one_of(20, 50, 100, 300))


def _calm(draw: Draw) -> Json:
    """No faults, slow calls, checkpoints by time: checkpoints must keep completing (V18)."""
    operator = {
        "mode": draw.one_of("ordered", "unordered"),
        "capacity": draw.between(2, 3),
        "back_pressure": "hard",
    }
    workload = _workload(draw, is_keyed=False) | {
        "records": draw.between(10, 14),
        "subtasks": 1,
        "service": duration_text(_SLOW_MS),
        "checkpoint_interval": duration_text(draw.between(400, 600)),
    }
    return {"operator": operator, "workload": workload, "sink": "atomic", "faults": [], "budget": "5m"}


def _disturbed(draw: Draw) -> Json:
    is_keyed = draw.chance(_KEYED)
    sink = draw.one_of(*(["atomic"] * 3), *(["two-phase"] * 3), *(["idempotent"] * 2))
    operator, workload = _operator(draw, is_keyed=is_keyed, sink=sink), _workload(draw, is_keyed=is_keyed)
    by_time = sink == "atomic" and not is_keyed and draw.chance(_BY_TIME)
    if by_time:
        workload["checkpoint_interval"] = duration_text(draw.between(20, 100))
    else:
        workload["checkpoint_every"] = draw.between(2, 12)
    inputs, gap = draw.between(1, 2), duration_text(draw.between(20, 200))
    setting = Setting(
        operator=operator,
        workload=workload,
        sink=sink,
        by_time=by_time,
        inputs=inputs if is_keyed else 0,
    )
    faults = draw_faults(setting, draw)
    if not by_time and any(fault["do"] == "zombie" for fault in faults) and draw.chance(_SLOW_BESIDE_ZOMBIES):
        workload["rate"] = f"{draw.between(4, 12)}/s"
    drawn: dict[str, Any] = {"operator": operator, "workload": workload, "sink": sink, "faults": faults}
    if is_keyed:
        # Only records that are not all due at once make a task's time pass.
        drawn["task"] = task = {"inputs": inputs, "gap": gap}
        if draw.chance(300):
            task["timers"] = "processing-time"
        if draw.chance(300):
            task["ttl"] = duration_text(draw.between(5, 100))
        if inputs > 1 and draw.chance(400):
            task["idle"] = draw.between(1, 3)
        elif inputs > 1 and draw.chance(300):
            task["lag"] = duration_text(draw.between(1, 100))
        if draw.chance(300):
            task["latency_markers"] = draw.between(1, 6)
        if draw.chance(400):
            task["async_snapshot"] = draw.between(1, workload["checkpoint_every"] - 1)
    return drawn


def _operator(draw: Draw, *, is_keyed: bool, sink: str) -> Json:
    operator: dict[str, Any] = {
        "mode": draw.one_of("ordered", "unordered"),
        "capacity": draw.one_of(1, 2, 2, 3, 4, 5, 8),
        "on_error": draw.one_of("fail", "fail", "dead-letter"),
    }
    if sink == "idempotent":  # as for a timeout: what fails now may succeed after a restart
        operator["on_error"] = "fail"
    retries = draw.chance(350)
    if retries or draw.chance(550):
        # One that fails the task is longer than an undisturbed call, so a run is not only restarts. With the idempotent
        # sink a record must yield the same result after every restart: it is neither substituted nor dropped.
        stand_ins = ([_SUBSTITUTE], [_SUBSTITUTE], [], "dead-letter") if sink != "idempotent" else ()
        on_timeout = draw.one_of("fail", *stand_ins)
        timeout_ms = draw.between(400, 2_000) if on_timeout == "fail" else draw.between(15, 150)
        cancels = {} if draw.chance(500) else {"cancels": False}
        operator |= {"timeout": duration_text(timeout_ms), "on_timeout": on_timeout, **cancels}
    if retries:
        operator |= {"tries": draw.between(2, 4), "retry_delay": duration_text(draw.between(1, 40))}
    if draw.chance(500):
        operator["connections"] = draw.between(2, 8)
    if not is_keyed and draw.chance(500):
        operator["back_pressure"] = "hard"
    if draw.chance(250):
        operator["downstream"] = {
            "takes": draw.between(1, 6),
            "shut": duration_text(draw.between(1, 25)),
        }
    return operator


def _plan_failures(operator: Json, workload: Json, draw: Draw) -> None:
    """Lets calls of some records fail, and sometimes a backoff grow, where the task goes on after it.

    A task that fails for good would fail at the same record after each restart: where the last try fails it, at most
    one call fails, which succeeds when it is made again, at the latest at the end of the input.
    """
    tries, is_dead = operator.get("tries", 1), operator.get("on_error") == "dead-letter"
    if not (is_dead or tries > 1) or not draw.chance(_FAILING):
        return
    workload["failing_every"] = draw.between(2, 6)
    workload["failing_calls"] = draw.between(1, tries + 1) if is_dead else 1
    if tries > 1 and draw.chance(500):
        operator["retry_multiplier"] = draw.one_of(1.5, 2, 3)
        may_wait_long = workload["failing_calls"] == 1 or operator["on_timeout"] != "fail"
        if not (may_wait_long and draw.chance(_UNLIMITED)):
            operator["retry_delay_max"] = duration_text(_QUICK_MS)
    elif tries > 1 and operator["on_timeout"] != "fail" and draw.chance(_FAR):
        operator["retry_delay"] = duration_text(draw.between(3, 8) * duration_ms(operator["timeout"]))


def _workload(draw: Draw, *, is_keyed: bool) -> Json:
    workload: dict[str, Any] = {
        "records": draw.between(5, draw.one_of(12, 12, 30)),
        "subtasks": draw.one_of(1, 1, 2, 2, 3),
        "keys": draw.one_of(1, 3, 10, 30),
        "rate": f"{draw.one_of(_AT_ONCE, _AT_ONCE, 1000, 500, 200)}/s",
        "watermark_every": draw.one_of(1, 2, 5) if is_keyed else draw.one_of(0, 1, 2, 3, 5, 10),
        "service": duration_text(draw.one_of(0, 5, 20, 40, _QUICK_MS, _QUICK_MS)),
        "fanout": draw.one_of(1, 1, 1, 2, 3),
        "expected": "told" if draw.chance(850) else "untold",
    }
    if not is_keyed:
        workload |= {
            "watermarks": draw.one_of("rising", "rising", "repeating", "wild"),
            "final_watermark": draw.chance(500),
            "timestamps": draw.one_of("all", "all", "some", "none"),
            "reuses_objects": draw.chance(250),
        }
    return workload
