"""`--set KEY=VALUE`: any field, judged as if it stood in the file."""

from __future__ import annotations

import pytest

from harness.faults.latency import Latency
from harness.scenario.file import ScenarioProblems, apply_settings
from harness.tests.scenario_drafts import sound
from tools.cases import each


def told(*settings: str) -> str:
    with pytest.raises(ScenarioProblems) as raised:
        apply_settings(sound(), settings)
    return str(raised.value)


def test_settings_reach_any_field_by_id_index_or_name() -> None:
    new = apply_settings(
        sound(),
        [
            "workload.records=500",
            "faults.spike.delay=50ms",
            "faults.0.for=1s",
            "faults.spike.jitter=5ms",
            "faults.spike.when={checkpoint: 3}",
            "operator.on_timeout=[none, 3]",
            "operator.timeout = 300ms",
            "budget=30s",
            "expects.restores=1",
        ],
    )

    spike = new.faults[0]
    assert isinstance(spike, Latency)
    assert (new.workload.records, spike.delay, spike.lasts, spike.jitter) == (500, 50, 1000, 5)
    assert spike.when.model_dump(exclude_none=True) == {"checkpoint": 3}
    assert (new.operator.on_timeout, new.operator.timeout) == (["none", 3], 300)
    assert (new.budget, new.expects.restores) == (30_000, 1)


def test_the_last_setting_of_a_field_wins() -> None:
    assert apply_settings(sound(), ["workload.keys=1", "workload.keys=2"]).workload.keys == 2


def test_no_setting_changes_nothing() -> None:
    assert apply_settings(sound(), []) == sound()


def test_a_fault_can_be_taken_out() -> None:
    assert apply_settings(sound(), ["faults=[]"]).faults == ()


@each(
    ("setting", "place", "hint"),
    [
        ("workload.recrds=1", "--set:1:10: unknown field `recrds`", "did you mean `records`?"),
        ("wrkload.records=1", "--set:1:1: unknown field `wrkload`", "did you mean `workload`?"),
        ("faults.spik.delay=1s", "--set:1:8: there is no `spik` here", "did you mean `spike`?"),
        ("faults.7.delay=1s", "--set:1:8: there is no `7` here", "choose from spike, kill"),
        ("faults.spike.delay=50", "--set:1:20: `faults.spike.delay`: 50 is not a duration", "250ms"),
        ("workload.records=many", "--set:1:18: `workload.records` should be a whole number", ""),
        ("operator.mode=orderd", "--set:1:15: `operator.mode` cannot be", "did you mean `ordered`?"),
        ("operator.mode=[", "--set:1:16: this is not YAML", ""),
        ("operator.mode=", "--set:1:15: `operator.mode` cannot be nothing", "choose from"),
        ("budget.seconds=3", "--set:1:8: `seconds` would be a field of a plain value", "shorten the key"),
        ("workload", "--set:1:1: `workload` is not KEY=VALUE", "workload.records=100"),
        ("=3", "--set:1:1: `=3` is not KEY=VALUE", ""),
        ("workload.subtasks=1", "there is no subtask 1", "write 0 to 0"),
        ("operator.mode=unordered", "`V1` cannot be violated here", "take V2"),
        ("faults.kill.when.call=3", "`when` holds 2 triggers", "take all but one out"),
    ],
)
def test_a_setting_that_does_not_fit_is_told_like_a_mistake_in_a_file(
    setting: str, place: str, hint: str
) -> None:
    message = told(setting)

    assert place in message
    assert hint in message


def test_the_problems_of_all_settings_are_told_at_once() -> None:
    message = told("workload.rate=3", "workload.keys=4", "operator.mode=fast")

    assert "2 problems" in message
    assert "--set:1:15" in message
    assert "--set:3:15" in message
