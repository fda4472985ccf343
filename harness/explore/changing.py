"""Changes of a scenario: faults are added, dropped, moved or retimed, settings are exchanged for drawn ones.

Answers to the mutations of AFL, on a scenario instead of on bytes. Invariants: a changed scenario is valid, keeps what
`harness.explore.drawing` keeps so that a correct operator can finish it, and depends on its arguments alone; a value
that is not scaled comes from `draw_scenario` or from the other parent, so that there is one generator.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any, Final

from pydantic import ValidationError

from harness.explore.drawing import draw_scenario, levels_of
from harness.explore.drawn_faults import another_moment, another_phase
from harness.faults.parts.values import duration_ms, duration_text
from harness.scenario.model import Scenario
from harness.system.choices import Draw

_TRIES_MAX: Final = 20
"""Changes drawn at most until one is valid."""
_FAULTS_MAX: Final = 12
_CRASHES: Final = frozenset({"kill_worker", "zombie"})
_CRASHES_MAX: Final = 2
"""Crashes of one subtask. Its fourth attempt is the last; one restart is left for an error."""
_SERVICES_IN_TIME: Final = 5
"""How many undisturbed calls, one after the other, a timeout that fails the task allows."""
_ONE_MORE: Final = 850
_OF_A_DONOR: Final = 700
"""Chances per thousand: a further change; each fault of the other scenario, where faults are added."""
_SEEDS: Final = 1_000_000_000

Plain = dict[str, Any]
"""A scenario as in its file."""
Change = Callable[[Plain, Plain, Draw], None]
"""Changes the first in place; the second is another scenario, from which a part may be taken."""


def change(scenario: Scenario, draw: Draw, *, other: Scenario | None = None) -> Scenario | None:
    """`scenario` with one or more drawn changes, some of them parts of `other`; None: no valid one was drawn."""
    before = _plain(scenario)
    before["workload"].pop("checkpoint_gap", None)  # claimed for the scenario as it was
    for _ in range(_TRIES_MAX):
        donor = _plain(other) if other is not None and draw.chance(300) else _drawn(draw)
        changed = deepcopy(before)
        draw.one_of(*_CHANGES)(changed, donor, draw)
        while draw.chance(_ONE_MORE):
            draw.one_of(*_CHANGES)(changed, donor, draw)
        made = _finished(changed)
        if made is not None and made != scenario:
            return made
    return None


def shortened(scenario: Scenario, *, records: int, keeps_time: bool = False) -> Scenario | None:
    """`scenario` with at most so many records a subtask, and triggers and keys in proportion; None: it cannot be.

    `keeps_time`: the records come as much slower, so that what lasts, expires or ends by time still does.
    """
    plain = _plain(scenario)
    workload = plain["workload"]
    before: int = workload["records"]
    if before <= records:
        return _finished(plain)

    def scaled(value: int, *, least: int = 1) -> int:
        return max(least, value * records // before)

    workload["records"] = records
    if workload.get("checkpoint_every"):
        workload["checkpoint_every"] = scaled(workload["checkpoint_every"], least=2)
    if workload.get("failing_every"):
        workload["failing_every"] = scaled(workload["failing_every"], least=2)
    if keeps_time:
        workload["rate"] = f"{scaled(int(workload['rate'].removesuffix('/s')))}/s"
        workload["keys"] = scaled(workload["keys"], least=min(3, workload["keys"]))
    task = plain.get("task") or {}
    if workload.get("checkpoint_every") and task.get("async_snapshot"):
        task["async_snapshot"] = min(task["async_snapshot"], workload["checkpoint_every"] - 1)
    for fault in plain["faults"]:
        _scale_trigger(fault["when"], scaled, keeps_time=keeps_time)
    return _finished(plain)


_FOR_EACH_RECORD: Final = frozenset({"accept", "call", "result", "emit", "wm", "timer"})
"""Phases that are reached as often as there are records, more or less."""


def _scale_trigger(when: Plain, scaled: Callable[[int], int], *, keeps_time: bool) -> None:
    for name in ("call", "record"):
        if name in when:
            when[name] = scaled(when[name])
    if when.get("phase") in _FOR_EACH_RECORD:
        when["hit"] = scaled(when["hit"])
    if "at" in when and not keeps_time:
        when["at"] = duration_text(scaled(duration_ms(when["at"])))
    if "between" in when and not keeps_time:
        low, high = (scaled(duration_ms(text)) for text in when["between"])
        when["between"] = [duration_text(low), duration_text(max(high, low + 1))]


def exploring_form(scenario: Scenario) -> Scenario:
    """`scenario` without what only its own purpose needs: a planted defect, a pitfall, its saved choices."""
    return scenario.model_copy(update={"mutant": None, "pitfall": None, "shows": None})


def _finished(plain: Plain) -> Scenario | None:
    """The scenario of `plain`, as one that exploration runs; None: it is invalid, or no operator could finish it."""
    _fit(plain)
    if not _can_be_finished(plain):
        return None
    try:
        return Scenario.model_validate(plain)
    except ValidationError:
        return None


def _plain(scenario: Scenario) -> Plain:
    plain: Plain = scenario.model_dump(mode="json", by_alias=True)
    return plain


def _drawn(draw: Draw) -> Plain:
    return _plain(draw_scenario(draw.index(_SEEDS)))


# ------------------------------------------------------------------------------- what makes it whole again


def _fit(plain: Plain) -> None:
    """Names, expectations and levels that fit what was changed; what a changed part does not allow is left out."""
    workload = plain["workload"]
    plain["decisive"] = ["V9"]
    plain["expects"] = {"records": workload["records"] * workload["subtasks"], "checkpoints": 1}
    plain["levels"] = levels_of(plain["faults"]) if "sim" in plain["levels"] else plain["levels"]
    for name in ("mutant", "pitfall", "choices", "shows"):
        plain.pop(name, None)
    if workload.get("checkpoint_interval") is None:
        workload.pop("checkpoint_interval", None)
    else:
        workload.pop("checkpoint_every", None)
    steps = plain.get("rescale") or []
    subtasks = workload["subtasks"] + sum(
        step["to"] for step in (steps if isinstance(steps, list) else [steps])
    )
    for number, fault in enumerate(plain["faults"], 1):
        fault["id"] = f"{fault['do'].replace('_', '-')}-{number}"
        if fault.get("subtask", 0) >= subtasks:
            fault["subtask"] = 0
        if fault["when"].get("subtask", 0) >= subtasks:
            fault["when"]["subtask"] = 0
        if "record" in fault["when"]:
            fault["when"]["record"] = min(fault["when"]["record"], workload["records"])
    plain["faults"] = list(_bearable(plain["faults"], budget_ms=duration_ms(plain["budget"])))


def _bearable(faults: list[Plain], *, budget_ms: int) -> Iterator[Plain]:
    """Without those that would use up the restarts of a subtask, or more than half of the run's time by pauses."""
    crashes: Counter[int] = Counter()
    paused_ms: Counter[int] = Counter()
    for fault in faults:
        if fault["do"] == "pause_worker":
            paused_ms[fault["subtask"]] += duration_ms(fault["for"])
            if 2 * paused_ms[fault["subtask"]] > budget_ms:
                continue
        if fault["do"] in _CRASHES:
            crashes[fault["subtask"]] += 1
            if crashes[fault["subtask"]] > _CRASHES_MAX:
                continue
        yield fault


def _can_be_finished(plain: Plain) -> bool:
    """The promises of `draw_scenario` between a sink, failures and timeouts; without them a run shows nothing."""
    operator, workload = plain["operator"], plain["workload"]
    goes_on = operator.get("on_error") == "dead-letter"
    fails_at_timeout = operator.get("on_timeout", "fail") == "fail"
    if plain.get("sink") == "idempotent" and (
        goes_on or not fails_at_timeout or any(fault["do"] == "change_rows" for fault in plain["faults"])
    ):
        return False  # what fails now may succeed after a restart, and the first version of a row stays
    if (
        workload.get("failing_every")
        and not goes_on
        and workload["failing_calls"] >= operator.get("tries", 1)
    ):
        return False  # the task would fail at the same record after each restart
    timeout_ms = duration_ms(operator["timeout"]) if fails_at_timeout else 0
    if timeout_ms and duration_ms(workload["service"]) * _SERVICES_IN_TIME > timeout_ms:
        return False  # undisturbed calls would time out, and nothing would explain the failure
    if fails_at_timeout and any(
        fault["do"] == "missing_completion" or fault.get("how") in {"silent", "after"}
        for fault in plain["faults"]
    ):
        return False
    return len(plain["faults"]) <= _FAULTS_MAX and operator.get("client") is None and "schema" not in plain


# --------------------------------------------------------------------------------------- changes of faults


def _add_faults(plain: Plain, donor: Plain, draw: Draw) -> None:
    plain["faults"] += [deepcopy(fault) for fault in donor["faults"] if draw.chance(_OF_A_DONOR)]


def _crowd(plain: Plain, donor: Plain, draw: Draw) -> None:
    """Faults of several other scenarios, so that many act beside each other."""
    faults = [*plain["faults"], *deepcopy(donor["faults"])]
    for _ in range(draw.between(1, 3)):
        faults += _drawn(draw)["faults"]
    plain["faults"] = faults[-_FAULTS_MAX:]


def _drop_fault(plain: Plain, donor: Plain, draw: Draw) -> None:
    del donor
    if plain["faults"]:
        del plain["faults"][draw.index(len(plain["faults"]))]


def _repeat_fault(plain: Plain, donor: Plain, draw: Draw) -> None:
    """The same fault once more, at another moment."""
    del donor
    if plain["faults"]:
        plain["faults"].append(deepcopy(draw.one_of(*plain["faults"])))
        _move(plain, plain["faults"][-1], draw)


def _move_fault(plain: Plain, donor: Plain, draw: Draw) -> None:
    del donor
    if plain["faults"]:
        _move(plain, draw.one_of(*plain["faults"]), draw)


def _move(plain: Plain, fault: Plain, draw: Draw) -> None:
    """Another hit, call, record or time; or another phase, where there is one."""
    when = fault["when"]
    for name in ("hit", "call", "record", "checkpoint"):
        if name in when and draw.chance(600):
            when[name] = max(1, draw.one_of(when[name] - 1, when[name] + 1, when[name] // 2, when[name] * 2))
            return
    if "at" in when and draw.chance(600):
        when["at"] = duration_text(_scaled_ms(when["at"], draw))
    elif "phase" in when:
        with_store = plain.get("sink", "atomic") != "atomic"
        inputs = (plain.get("task") or {}).get("inputs", 0)
        more = (*(["store"] if with_store else []), *(["timer", "timer"] if inputs else []))
        fault["when"] = another_phase(
            draw, with_store=with_store, inputs=inputs, records=plain["workload"]["records"], more=more
        )
    else:
        fault["when"] = another_moment(fault["do"], draw, records=plain["workload"]["records"]) or when


def _retime_fault(plain: Plain, donor: Plain, draw: Draw) -> None:
    """Another duration, delay or gap."""
    del donor
    if not plain["faults"]:
        return
    fault = draw.one_of(*plain["faults"])
    timed = [name for name in ("for", "delay", "jitter", "gap", "every") if name in fault]
    if timed:
        name = draw.one_of(*timed)
        fault[name] = duration_text(max(1, _scaled_ms(fault[name], draw)))
    for name in ("times", "nth", "count"):
        if name in fault and draw.chance(300):
            fault[name] = max(1, fault[name] + draw.one_of(-1, 1, 2))


def _scaled_ms(text: str, draw: Draw) -> int:
    ms = duration_ms(text)
    return draw.one_of(ms // 4, ms // 2, max(0, ms - 1), ms + 1, ms * 2, min(ms * 4, 120_000))


def _other_subtask(plain: Plain, donor: Plain, draw: Draw) -> None:
    del donor
    for fault in plain["faults"]:
        if "subtask" in fault and draw.chance(500):
            fault["subtask"] = draw.index(plain["workload"]["subtasks"])


# ------------------------------------------------------------------------------------- changes of settings


def _take(part: str, *names: str) -> Change:
    """A change that takes the fields `names` of one part from the donor, and leaves out those that it has not."""

    def taken(plain: Plain, donor: Plain, draw: Draw) -> None:
        del draw
        for name in names:
            if name in donor[part]:
                plain[part][name] = deepcopy(donor[part][name])
            else:
                plain[part].pop(name, None)

    return taken


def _take_whole(name: str) -> Change:
    def taken(plain: Plain, donor: Plain, draw: Draw) -> None:
        del draw
        if donor.get(name) is not None:
            plain[name] = deepcopy(donor[name])
        else:
            plain.pop(name, None)

    return taken


def _take_task(plain: Plain, donor: Plain, draw: Draw) -> None:
    """The donor's task with what it needs of the workload, or none."""
    _take_whole("task")(plain, donor, draw)
    if "task" in plain:
        plain["workload"] |= {
            name: donor["workload"][name]
            for name in ("watermark_every", "watermarks", "final_watermark", "timestamps", "reuses_objects")
        }
        plain["operator"]["back_pressure"] = "soft"
        plain["operator"].pop("upstream", None)


def _other_size(plain: Plain, donor: Plain, draw: Draw) -> None:
    """Fewer or more records, or another number of subtasks."""
    workload = plain["workload"]
    if draw.chance(500):
        workload["subtasks"] = donor["workload"]["subtasks"]
    else:
        workload["records"] = max(2, min(60, draw.one_of(workload["records"] // 2, workload["records"] + 7)))


_RETRY: Final = ("tries", "retry_delay", "retry_multiplier", "retry_delay_max")
_ANSWERS: Final = ("timeout", "on_timeout", "cancels", "on_error")

_CHANGES: Final[tuple[Change, ...]] = (
    *([_crowd] * 20),
    *([_add_faults] * 5),
    *([_move_fault] * 4),
    *([_retime_fault] * 3),
    *([_drop_fault] * 2),
    *([_repeat_fault] * 2),
    _other_subtask,
    _take_whole("sink"),
    _take_whole("rescale"),
    _take_task,
    _take("operator", "mode"),
    _take("operator", "capacity"),
    _take("operator", *_RETRY, *_ANSWERS),
    _take("operator", "connections", "downstream"),
    _take("operator", "back_pressure", "upstream"),
    _take("workload", "failing_every", "failing_calls"),
    _take("workload", "rate", "service"),
    _take("workload", "checkpoint_every", "checkpoint_interval"),
    _take("workload", "watermark_every", "watermarks", "final_watermark", "timestamps"),
    _take("workload", "keys", "keys_like", "skew"),
    _take("workload", "fanout", "row_bytes", "rows_like"),
    _take("workload", "reuses_objects", "expected"),
    _other_size,
)
"""Every change; one that is listed n times is n times as likely."""
