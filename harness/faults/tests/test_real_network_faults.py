"""Each fault that any proxy can do, in a whole run in each world with each proxy: it bites.

Where the proxy is asked and does nothing, the same run is vacuous.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from harness.faults.tests.short_run import short, short_run
from harness.history.verdict import Outcome
from harness.scenario.model import Scenario
from harness.tests.real_world import real_world
from harness.tests.whole_run import told
from harness.world.toxiproxy import Toxiproxy
from harness.world.world import World

pytestmark = [pytest.mark.real, pytest.mark.long, pytest.mark.timeout(120)]

FOR = {"link": "lookups", "when": {"at": "500ms"}, "for": "1s"}
TRIALS: dict[str, dict[str, Any]] = {
    "latency": {**FOR, "delay": "300ms", "jitter": "10ms"},
    "jitter": {**FOR, "jitter": "600ms"},
    "one_way": {**FOR, "delay": "300ms", "direction": "up"},
    "blackhole": FOR,
    "reset": FOR,
    "cut": {"link": "lookups", "when": {"at": "500ms"}},
    "down": {**FOR, "link": "sink"},
    "flap": {**FOR, "open": "200ms", "closed": "200ms", "for": "1200ms"},
    "bandwidth": {**FOR, "rate": "10kB/s"},
    "slow_loris": {**FOR, "bytes": 50, "gap": "40ms"},
    "limit": {**FOR, "bytes": 600},
}
SETTINGS: dict[str, dict[str, Any]] = {
    "blackhole": {"timeout": "200ms"},
    "bandwidth": {"row_bytes": 2000},
}
KINDS = pytest.mark.parametrize("kind", TRIALS)


IDLE: dict[str, dict[str, Any]] = {"slow_loris": {"gap": "200ms"}}
"""What would be seen if it acted must be more than the noise of a busy machine."""


def trial(kind: str, **other: Any) -> Scenario:
    return short({"id": "f", "do": kind, **TRIALS[kind], **other}, **SETTINGS.get(kind, {}))


WORLDS = [
    "local own",
    "containers toxiproxy",
    # The same proxies in the other world: that both do the same is the conformance suite's, and its are quicker.
    *(pytest.param(world, marks=pytest.mark.soak) for world in ("local toxiproxy", "containers own")),
]


@pytest.fixture(scope="module", params=WORLDS)
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    """Each kind of world with each proxy, or a skip with what this machine lacks."""
    kind, _, proxy = request.param.partition(" ")
    with real_world(kind, proxy=proxy) as opened:
        yield opened


@KINDS
def test_each_bites_with_evidence_and_every_record_counts_once(
    kind: str, world: World, tmp_path: Path
) -> None:
    outcome = short_run(world, trial(kind), tmp_path)

    assert outcome.judgement.outcome is Outcome.PASS, told(outcome)
    (fault,) = outcome.faults
    assert fault.bites, told(outcome)
    (time,) = fault.times
    assert time.planned_us is not None
    assert time.armed_us is not None
    assert time.healed_us is not None
    assert time.planned_us <= time.armed_us < time.healed_us
    assert (outcome.accounting["doubled"], outcome.accounting["missing"]) == (0, 0)


@KINDS
@pytest.mark.parametrize("world", ["local own", "local toxiproxy"], indirect=True)
def test_each_that_does_nothing_makes_the_run_vacuous(kind: str, world: World, tmp_path: Path) -> None:
    outcome = short_run(world, trial(kind, **IDLE.get(kind, {})), tmp_path, idle=True)

    assert outcome.judgement.outcome is Outcome.VACUOUS, told(outcome)
    assert not any(fault.bites for fault in outcome.faults)


def test_a_fault_that_repeats_bites_each_time_and_heals_between(world: World, tmp_path: Path) -> None:
    again = {"id": "f", "do": "down", "link": "lookups", "when": {"at": "200ms"}, "for": "150ms"}

    outcome = short_run(world, short({**again, "repeat": 3, "every": "500ms"}), tmp_path)

    assert outcome.judgement.outcome is Outcome.PASS, told(outcome)
    (fault,) = outcome.faults
    assert len(fault.times) == 3
    assert all(time.evidence for time in fault.times)


@pytest.mark.parametrize("world", ["local own", "containers own"], indirect=True)
def test_the_proxys_draws_follow_from_the_runs_seed(world: World, tmp_path: Path) -> None:
    assert isinstance(world.proxy, Toxiproxy)
    control = world.proxy.control

    outcome = short_run(world, short(), tmp_path)

    asked = HTTPConnection(control.host, control.port, timeout=60)
    with closing(asked):
        asked.request("GET", "/floodmark")
        assert json.load(asked.getresponse())["seed"] == outcome.seed
