"""Scenarios for tests: a small sound one to break, and Hypothesis' drawing of any sound one."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from harness.scenario import Scenario
from harness.scenario_values import duration_text

__all__ = ["SOUND", "scenarios", "sound"]

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
    from harness.scenario_file import loads  # noqa: PLC0415 - a mistake in it is a test's failure, not an import's

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
    mode = draw(st.sampled_from(["ordered", "unordered"]))
    substituted = draw(st.booleans())
    subtasks = draw(st.integers(1, 4))
    ids = draw(st.lists(_names, unique=True, max_size=4))
    decisive = ["V8", "V1" if mode == "ordered" else "V2"]
    return Scenario.model_validate(
        {
            "scenario": draw(_names),
            "about": draw(_texts),
            "tags": draw(st.lists(st.text(), max_size=3)),
            "levels": draw(st.sampled_from([["live"], ["spark"], ["sim", "live", "spark"]])),
            "operator": {
                "mode": mode,
                "capacity": draw(st.integers(1, 500)),
                "timeout": draw(_spans if substituted else _durations),
                "on_timeout": draw(st.lists(_json, max_size=3)) if substituted else "fail",
            },
            "workload": {
                "records": draw(st.integers(100, 1000)),
                "subtasks": subtasks,
                "rate": f"{draw(st.integers(1, 5000))}/s",
                "watermark_every": draw(st.integers(1, 20)),
                "checkpoint_every": draw(st.integers(1, 20)),
                "service": draw(_durations),
            },
            "faults": [draw(_faults(name, subtasks)) for name in ids],
            "decisive": draw(st.permutations(decisive)),
            "expects": draw(st.sampled_from([{}, {"records": 50}, {"checkpoints": 2, "records": 0}])),
        }
    )


@st.composite
def _faults(draw: st.DrawFn, name: str, subtasks: int) -> dict[str, Any]:
    subtask = draw(st.integers(0, subtasks - 1))
    if draw(st.booleans()):
        phase = {"phase": draw(st.sampled_from(["snapshot-taken", "committed", "call"])), "hit": 2}
        when = draw(st.sampled_from([phase, {"call": 7}, {"call": 7, "subtask": subtask}]))
        return {"id": name, "do": "kill_worker", "subtask": subtask, "when": when}
    triggers: list[dict[str, Any]] = [
        {"at": draw(_durations)},
        {"checkpoint": 2, "subtask": subtask},
        {"call": 9},
    ]
    fault = {
        "id": name,
        "link": draw(st.sampled_from(["lookups", "sink"])),
        "when": draw(st.sampled_from(triggers)),
    }
    fault |= {"do": draw(st.sampled_from(["latency", "blackhole", "down", "reset"])), "for": draw(_spans)}
    if fault["do"] == "latency":
        fault |= {"delay": "200ms", "jitter": draw(st.sampled_from(["0ms", "200ms"])), "direction": "up"}
    return fault
