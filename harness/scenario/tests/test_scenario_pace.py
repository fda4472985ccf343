"""The estimate of a scenario's time: the source's pace, or the last fault, whichever takes longer."""

from __future__ import annotations

from typing import Any

import pytest

from harness.scenario.catalogue import expected_s
from harness.scenario.model import Scenario
from harness.tests.scenario_drafts import sound
from tools.cases import each


def with_fault(when: dict[str, Any], **fields: Any) -> Scenario:
    """400 records at 400/s, a barrier every 40 of 440 positions."""
    fault = {"id": "f", "do": "down", "link": "sink", "for": "2s", "when": when, **fields}
    data = sound().model_dump(mode="json", by_alias=True)
    return Scenario.model_validate({**data, "faults": [fault], "expects": {}})


def test_without_a_late_fault_the_source_decides() -> None:
    assert expected_s(sound()) == pytest.approx(2.5)


@each(
    ("when", "begins_s"),
    [
        ({"at": "500ms"}, 0.5),
        ({"between": ["100ms", "700ms"]}, 0.7),
        ({"call": 200}, 0.25),
        ({"call": 200, "subtask": 1}, 0.5),
        ({"record": 200}, 0.5),
        ({"checkpoint": 11}, 1.0),
    ],
)
def test_a_fault_that_ends_later_counts_to_its_end(when: dict[str, Any], begins_s: float) -> None:
    assert expected_s(with_fault(when)) == pytest.approx(1.5 + begins_s + 2)


def test_each_repeat_counts() -> None:
    assert expected_s(with_fault({"at": "0ms"}, repeat=3, every="3s")) == pytest.approx(1.5 + 2 * 3 + 2)
