"""Scenarios and histories as Hypothesis strategies: they keep the rules, shrink, and say what is missing."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, find, given, settings
from hypothesis.errors import NoSuchExample

from harness.judge.second_judge import opinions, verdict
from harness.scenario.model import Scenario
from harness.system.errors import UsageError, WorldError
from harness.testing import check, histories, load, scenarios

few = settings(
    max_examples=8, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
searching = settings(few, max_examples=300)


@few
@given(scenarios(faults=["latency", "kill_worker"], most_faults=1))
def test_a_drawn_scenario_keeps_the_rules_and_the_wishes(scenario: Scenario) -> None:
    kinds = [fault.do for fault in scenario.faults]

    assert load(scenario.model_dump(mode="json", by_alias=True, exclude_unset=True)) == scenario
    assert set(kinds) <= {"latency", "kill_worker"}
    assert len(kinds) <= 1


@few
@given(scenarios(faults=[]))
def test_scenarios_without_faults_have_none(scenario: Scenario) -> None:
    assert not scenario.faults


def _has_two_parts(one: Scenario) -> bool:
    return one.workload.keys_like == "composite"


@pytest.mark.sweep
def test_keys_of_two_parts_are_drawn_only_if_they_are_wished() -> None:
    many = settings(searching, max_examples=1000)

    find(scenarios(faults=[], composite_keys=True), _has_two_parts, settings=many)
    with pytest.raises(NoSuchExample):
        find(scenarios(faults=[]), _has_two_parts, settings=many)


@pytest.mark.sweep
def test_a_scenario_shrinks_to_what_matters() -> None:
    found = find(
        scenarios(), lambda one: any(fault.do == "kill_worker" for fault in one.faults), settings=searching
    )

    assert [fault.do for fault in found.faults] == ["kill_worker"]
    assert found.workload.records == 5
    assert found.operator.capacity == 1


@settings(few, max_examples=3)
@given(lines=histories(of=scenarios(faults=["latency"])))
def test_a_drawn_history_is_judged_alike_by_both_judges(
    lines: list[dict[str, Any]], tmp_path_factory: Any
) -> None:
    path: Path = tmp_path_factory.mktemp("drawn") / "history.jsonl"
    path.write_bytes(encoded(lines))

    assert check(path).outcome == verdict(lines, opinions(lines)) == "pass"


def encoded(lines: list[dict[str, Any]]) -> bytes:

    return b"\n".join(json.dumps(line).encode() for line in lines) + b"\n"


def test_a_fault_that_is_not_drawn_is_refused_with_those_that_are() -> None:
    with pytest.raises(UsageError, match="no scenario is drawn with the fault 'earthquake'") as raised:
        scenarios(faults=["earthquake"])

    assert "kill_worker" in str(raised.value)


@pytest.mark.parametrize("strategy", [scenarios, histories])
def test_without_hypothesis_it_says_what_to_install(strategy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "hypothesis", None)

    with pytest.raises(WorldError, match=r"pip install 'floodmark\[hypothesis\]'"):
        strategy()
