"""Scenarios for tests: a small sound one to break, and Hypothesis' drawing of any sound one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import strategies as st
from pydantic import ValidationError

from harness.faults.model.fault import Fault
from harness.faults.parts.values import duration_text
from harness.faults.registry import FAULTS
from harness.scenario.model import Scenario

SOUND = """\
scenario: small
about: A small sound scenario to break.
operator:
  mode: ordered
  timeout: 5s
workload:
  records: 400
  subtasks: 2
  rate: 400/s
  checkpoint_every: 40
faults:
  - id: spike
    do: latency
    link: lookups
    delay: 150ms
    when: {at: 300ms}
    for: 400ms
  - id: kill
    do: kill_worker
    subtask: 1
    when: {phase: committed, hit: 4}
decisive: [V1, V8, V10]
expects: {records: 800, checkpoints: 8}
"""


def sound() -> Scenario:
    """The scenario that `SOUND` describes."""
    from harness.scenario.file import loads  # noqa: PLC0415 - a mistake in it is a test's failure, not an import's

    return loads(SOUND)


_names = st.from_regex(r"[a-z][a-z0-9-]{0,11}", fullmatch=True)
_durations = st.integers(0, 50_000).map(duration_text)
_spans = st.integers(1, 50_000).map(duration_text)
_texts = st.text(min_size=10, max_size=60)
_json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    """Any sound scenario."""
    mode = draw(st.sampled_from(["ordered", "unordered", "keyed"]))
    substituted = draw(st.booleans())
    subtasks = draw(st.integers(1, 4))
    levels = draw(st.sampled_from([["live"], ["spark"], ["sim", "live", "spark"]]))
    sink = draw(st.sampled_from(["atomic", "two-phase", "idempotent"]))
    decisive = ["V8", "V1" if mode == "ordered" else "V2"]
    task = draw(st.none() | _tasks())
    faults = [
        draw(_faults(name, subtasks=subtasks, levels=levels, sink=sink, is_keyed=task is not None))
        for name in draw(st.lists(_names, unique=True, max_size=4))
    ]
    return _with_few_faults(
        {
            "scenario": draw(_names),
            "about": draw(_texts),
            "tags": draw(st.lists(st.text(), max_size=3)),
            "levels": levels,
            "operator": {
                "mode": mode,
                "capacity": draw(st.integers(1, 500)),
                "timeout": draw(_spans if substituted else _durations),
                "on_timeout": draw(st.lists(_json, max_size=3) | st.just("dead-letter"))
                if substituted
                else "fail",
                "cancels": draw(st.booleans()) if substituted else True,
                "back_pressure": draw(st.sampled_from(["soft", "hard"])) if task is None else "soft",
                "downstream": draw(st.none() | st.just({"takes": 2, "shut": "20ms"})),
                "on_error": draw(st.sampled_from(["fail", "dead-letter"])),
                "tries": draw(st.integers(1, 5)) if substituted else 1,
            },
            "workload": {
                "records": draw(st.integers(100, 1000)),
                "subtasks": subtasks,
                "rate": f"{draw(st.integers(1, 5000))}/s",
                "watermark_every": draw(st.integers(1, 20)),
                **draw(_checkpoints(by_time=task is None and sink == "atomic")),
                "service": draw(_durations),
                "fanout": draw(st.integers(1, 4)),
                "row_bytes": draw(st.integers(0, 5000)),
                "skew": f"{draw(st.integers(0, 100))}%",
                "expected": draw(st.sampled_from(["told", "untold"])),
                **({} if task else draw(_irregular)),
            },
            **({} if task is None else {"task": task}),
            "sink": sink,
            "decisive": draw(st.permutations(decisive)),
            "expects": draw(st.sampled_from([{}, {"records": 50}, {"checkpoints": 2, "records": 0}])),
        },
        faults,
    )


_SWITCHES = ("failover", "split")


def _with_few_faults(fields: dict[str, Any], faults: list[dict[str, Any]]) -> Scenario:
    """With as many of the faults as may stand beside each other; each alone may."""
    for count in range(len(faults), 1, -1):
        try:
            return Scenario.model_validate({**fields, "faults": faults[:count]})
        except ValidationError:
            continue
    return Scenario.model_validate({**fields, "faults": faults[:1]})


def _checkpoints(*, by_time: bool) -> st.SearchStrategy[dict[str, Any]]:
    """By place, or by time where that can be."""
    by_place: st.SearchStrategy[dict[str, Any]] = st.integers(1, 20).map(
        lambda every: {"checkpoint_every": every}
    )
    timed = _spans.map(lambda span: {"checkpoint_interval": span})
    return by_place | timed if by_time else by_place


_irregular = st.fixed_dictionaries(
    {
        "watermarks": st.sampled_from(["rising", "repeating", "wild"]),
        "final_watermark": st.booleans(),
        "timestamps": st.sampled_from(["all", "some", "none"]),
        "reuses_objects": st.booleans(),
    }
)
"""What the input of a keyed task cannot be."""


@st.composite
def _tasks(draw: st.DrawFn) -> dict[str, Any]:
    """Any `task:`."""
    inputs = draw(st.integers(1, 2))
    lag = draw(_durations) if inputs > 1 else "0ms"
    return {
        "keyed": "sessions",
        "inputs": inputs,
        "gap": draw(_spans),
        "lag": lag,
        "timers": draw(st.sampled_from(["event-time", "processing-time"])),
        "ttl": draw(_durations),
        "latency_markers": draw(st.integers(0, 9)),
        "idle": draw(st.integers(0, 9)) if inputs > 1 and lag == "0ms" else 0,
    }


@st.composite
def _faults(
    draw: st.DrawFn, name: str, *, subtasks: int, levels: Sequence[str], sink: str, is_keyed: bool
) -> dict[str, Any]:
    """Any fault that levels, sink and task can do, with all that its kind needs and some of what it takes."""
    able = [
        kind
        for kind, form in FAULTS.items()
        if set(levels) <= set(form.levels)
        and form.by != "job"
        and (sink != "atomic" or "store" not in form.abilities)
        and (sink == "atomic" or kind not in _SWITCHES)
        and not (is_keyed and kind == "watermark_burst")
    ]
    kind = draw(st.sampled_from(able))
    form = FAULTS[kind]
    subtask = draw(st.integers(0, subtasks - 1))
    values: dict[str, Any] = {**_VALUES, "subtask": subtask, "code": (form.choices("code") or (0,))[0]}
    values["how"] = draw(st.sampled_from(form.choices("how") or ("any",)))
    taken = draw(st.sets(st.sampled_from(form.takes()))) if form.takes() else set()
    taken -= {"repeat", "every"} if "repeat" not in taken or "every" not in taken else set()
    fields = {field: values[field] for field in (*form.needs(), *sorted(taken))}
    return {"id": name, "do": kind, **fields, "when": draw(_whens(form, subtask))}


_VALUES = {
    "link": "sink", "direction": "up", "delay": "200ms", "jitter": "200ms", "rate": "64kB/s", "bytes": 100,
    "gap": "50ms", "open": "200ms", "closed": "300ms", "command": "commit", "statement": "SELECT c", "packet": 2,
    "nth": 3, "times": 2, "connections": 5, "count": 10, "share": "90%", "shift": "-60m", "for": "900ms",
    "repeat": 3, "every": "1s", "lag": "200ms",
}  # fmt: skip


@st.composite
def _whens(draw: st.DrawFn, form: type[Fault], subtask: int) -> dict[str, Any]:
    forms: dict[str, dict[str, Any]] = {
        "at": {"at": draw(_durations)},
        "between": {"between": ["100ms", "2s"]},
        "checkpoint": {"checkpoint": 2, "subtask": subtask},
        "call": {"call": 9},
        "record": {"record": 9},
        "phase": {
            "phase": draw(st.sampled_from(["snapshot-taken", "commit.post", "call", "restore.mid"])),
            "hit": 2,
        },
    }
    return forms[draw(st.sampled_from([name for name in form.triggers if name in forms]))]
