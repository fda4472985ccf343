"""The header claims what the settings make true: policies, retries, and that failures are explained."""

from __future__ import annotations

from typing import Any

import pytest

from harness.history.header import Header, Retry, parse_header
from harness.levels.live.tests.faulty_scenario import faulty
from harness.scenario.claims import header_of
from harness.scenario.order import Order


def header(*faults: dict[str, Any], level: str = "live", **operator: Any) -> Header:
    scenario = faulty(*faults, operator=operator, levels=["live"])
    parsed = parse_header(header_of(Order(scenario=scenario, level=level, seed=1)))
    assert isinstance(parsed, Header)
    return parsed


def test_without_a_second_try_no_retries_are_claimed_trust4() -> None:
    assert header().operator.retry is None


def test_the_delay_that_is_claimed_is_the_one_that_is_waited_trust4() -> None:
    assert header(tries=3).operator.retry == Retry(backoff="fixed", initial_ms=1, slack_ms=5000)


def test_an_exponential_backoff_is_claimed_with_its_limit_trust4() -> None:
    growing: dict[str, Any] = {"tries": 4, "retry_delay": "20ms", "retry_multiplier": 1.5}

    assert header(**growing).operator.retry == Retry(
        backoff="exponential", initial_ms=20, multiplier=1.5, max_ms=5000, slack_ms=5000
    )
    limited = header(**growing, retry_delay_max="30ms").operator.retry
    assert limited is not None
    assert limited.max_ms == 30


def test_a_retry_may_come_as_late_as_a_commit_that_a_fault_delays_trust4() -> None:
    cut = {"id": "cut", "do": "cut", "link": "sink", "when": {"at": "1s"}}

    retry = header(cut, tries=2).operator.retry

    assert retry is not None
    assert retry.slack_ms == 25_000


def test_at_level_sim_no_fault_widens_the_slack_since_waits_are_told() -> None:
    cut = {"id": "cut", "do": "cut", "link": "sink", "when": {"at": "1s"}}

    bounds = [header(*faults, level="sim", tries=2).bounds for faults in ((), (cut,))]

    assert [(one.timeout_slack, one.timer_resolution) for one in bounds] == [(100, 0), (100, 0)]


@pytest.mark.parametrize(
    ("settings", "policies"),
    [
        ({}, ("fail", "fail")),
        ({"on_error": "dead-letter"}, ("dead", "dead")),
        ({"on_timeout": "dead-letter"}, ("fail", "dead")),
        ({"on_timeout": [None]}, ("fail", "substitute")),
        ({"on_timeout": "nothing"}, ("fail", None)),
    ],
    ids=str,
)
def test_the_policies_are_declared_trust2(settings: dict[str, Any], policies: tuple[str, str | None]) -> None:
    operator = header(**settings).operator

    assert (operator.on_error, operator.on_timeout) == policies


@pytest.mark.parametrize(("level", "claim"), [("sim", "alone"), ("live", "alone"), ("spark", "together")])
def test_every_level_claims_that_failures_are_explained_trust2(level: str, claim: str) -> None:
    assert header(level=level).explained == claim


@pytest.mark.parametrize(("level", "bound_ms"), [("sim", 900), ("live", 5800)])
def test_a_workload_claims_the_gap_that_it_gives_and_the_slack_of_its_level_trust7(
    level: str, bound_ms: int
) -> None:
    claimed = header_of(Order(scenario=faulty(workload={"checkpoint_gap": "800ms"}), level=level, seed=1))

    assert claimed["bounds"]["checkpoint_gap"] == bound_ms
