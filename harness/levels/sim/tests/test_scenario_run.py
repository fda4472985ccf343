"""Scenario files at level sim: unchanged, quick, convicting what they must, and the same for the same seed."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from harness.database.pool import ConnectionLost
from harness.history.event import FaultEvent
from harness.history.verdict import Outcome
from harness.levels.sim.run import Simulated, simulate_scenario
from harness.scenario.file import apply_settings, load_many
from harness.scenario.model import Scenario
from harness.scenario.order import Order
from harness.sut.defects import find_defect
from harness.sut.variant import HONEST, Variant
from harness.system.errors import SutError
from harness.tests.simulated_run import judgement_of
from tools.cases import each

NAMES = (
    "blackhole-with-default",
    "calm",
    "connections-cut",
    "connections-reset",
    "kill-after-commit",
    "kill-between-snapshot-and-commit",
    "latency-spike-ordered",
    "latency-spike-unordered",
    "three-faults-in-one-interval",
)
"""Made small here; all of them, as they are, belong to the tier `sim`."""
SMALL = (
    "workload.records=60",
    "workload.checkpoint_every=11",
    "expects.records=120",
    "expects.checkpoints=5",
)
SHORTER = {
    "blackhole-with-default": ("faults.silence.when.at=40ms",),
    "connections-cut": ("faults.cut.when.call=20",),
    "latency-spike-ordered": ("faults.spike.when.at=40ms", "faults.spike.for=100ms"),
    "latency-spike-unordered": ("faults.spike.when.at=40ms",),
    "three-faults-in-one-interval": (
        "faults.cut.when.call=35",
        "faults.kill.when.hit=45",
        "workload.checkpoint_every=25",
        "expects.checkpoints=2",
    ),
}


def small(name: str) -> Scenario:
    [scenario] = load_many([name])
    return apply_settings(scenario, (*SMALL, *SHORTER.get(name, ())))


def simulated(name: str, *, seed: int = 3, variant: Variant = HONEST, sut: str = "reference") -> Simulated:
    return simulate_scenario(Order(scenario=small(name), level="sim", seed=seed, sut=sut), variant=variant)


@each("name", NAMES)
def test_the_reference_passes_a_scenario_of_the_catalogue(name: str) -> None:
    ran = simulated(name)

    assert ran.error is None
    assert judgement_of(ran).outcome is Outcome.PASS


@each(
    "mutant",
    [
        "snapshot-omits-completed",
        "tools.defects:sink_outside_transaction",
        "watermarks-at-once",
        "unordered-emission",
        "tools.defects:proxy_bypassed",
        "faults-do-nothing",
    ],
)
def test_a_planted_defect_is_convicted_in_its_scenario_by_what_is_meant_for_it(mutant: str) -> None:
    planted = find_defect(mutant)
    assert planted.scenario is not None

    judgements = (
        judgement_of(simulated(planted.scenario, seed=seed, variant=planted.variant), variant=planted.variant)
        for seed in range(4)
    )

    wrong = {Outcome.VACUOUS} if planted.convicted_by == ("V23",) else {Outcome.FAIL}
    assert any(
        verdict.invariant in planted.convicted_by and verdict.outcome in wrong
        for judgement in judgements
        for verdict in judgement.invariants
    )


@pytest.mark.parametrize("name", ["connections-reset", "kill-after-commit"])
def test_equal_seeds_leave_equal_bytes_and_others_do_not(name: str) -> None:
    one, again, other = (msgspec.json.encode(simulated(name, seed=seed).events) for seed in (5, 5, 6))

    assert one == again
    assert one != other


def test_faults_begin_at_their_trigger_and_last_as_long_as_they_should() -> None:
    ran = simulated("latency-spike-ordered")

    begin, end = (event for event in ran.events if isinstance(event, FaultEvent))

    assert (end.t - begin.t) == 100_000
    assert isinstance(end.evidence, dict)
    assert end.evidence["chunks_held"] > 0


def test_a_fault_that_outlives_the_run_is_healed_when_the_run_is_over() -> None:
    scenario = apply_settings(small("latency-spike-ordered"), ("faults.spike.for=90s",))

    ran = simulate_scenario(Order(scenario=scenario, level="sim", seed=3))

    last = [event for event in ran.events if isinstance(event, FaultEvent)][-1]
    assert (ran.error, last.phase) == (None, "end")
    assert ran.virtual_ms < 10_000
    assert judgement_of(ran).outcome is Outcome.PASS


def test_a_fault_is_healed_in_a_run_that_is_given_up_too() -> None:
    scenario = apply_settings(
        small("blackhole-with-default"),
        ("operator.timeout=0ms", "operator.on_timeout=fail", "budget=9s", "faults.silence.for=60s"),
    )

    ran = simulate_scenario(Order(scenario=scenario, level="sim", seed=3))

    assert "budget" in str(ran.error)
    assert [event.phase for event in ran.events if isinstance(event, FaultEvent)] == ["begin", "end"]
    assert judgement_of(ran).outcome is Outcome.UNKNOWN


async def users_own(record: Any, pool: Any) -> list[dict[str, Any]]:
    """As a user writes it: SQL over the pool, and again if the connection is lost."""
    while True:
        try:
            row = await pool.fetch_one(
                "SELECT name, city, tier, SLEEP(%s) FROM customer WHERE k = %s", (0.01, record.key)
            )
        except ConnectionLost:
            continue
        return [{"name": row[0], "city": row[1], "tier": row[2]}]


async def needs_no_pool(record: Any) -> int:
    """Answers at once."""
    return int(record.key)


async def misspelt(record: Any, pool: Any) -> Any:
    """Asks for a table that does not exist."""
    return await pool.fetch_one("SELECT name FROM costumer WHERE k = %s", (record.key,))


@pytest.mark.parametrize("name", ["connections-cut", "kill-after-commit", "latency-spike-unordered"])
def test_a_users_own_coroutine_runs_unchanged(name: str) -> None:
    ran = simulated(name, sut=f"{__name__}:users_own")

    assert judgement_of(ran).outcome is Outcome.PASS


def test_a_function_that_never_crosses_the_link_leaves_the_fault_without_evidence() -> None:
    judgement = judgement_of(simulated("connections-cut", sut=f"{__name__}:needs_no_pool"))

    assert judgement.outcome is Outcome.VACUOUS


async def ends_the_process(record: Any, pool: Any) -> Any:
    """Calls what ends a program with exit code 0."""
    raise SystemExit(0)


async def ends_it_from_a_task_of_its_own(record: Any, pool: Any) -> Any:
    """Waits for a task that calls what ends a program."""
    return await asyncio.ensure_future(ends_the_process(record, pool))


@pytest.mark.parametrize("name", ["ends_the_process", "ends_it_from_a_task_of_its_own"])
def test_a_function_that_ends_the_process_fails_its_attempts_and_the_run_is_judged(name: str) -> None:
    ran = simulated("calm", sut=f"{__name__}:{name}")

    assert "failed 4 times" in str(ran.error)
    assert "SystemExit" in str(ran.error)
    assert judgement_of(ran).outcome is Outcome.FAIL


async def prints(record: Any, pool: Any) -> Any:
    """Says something on standard output."""
    print("a word of the user's", record.id)  # noqa: T201 - as a user's code may
    return await users_own(record, pool)


def test_what_a_function_prints_goes_to_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    simulated("calm", sut=f"{__name__}:prints")

    said = capsys.readouterr()
    assert said.out == ""
    assert "a word of the user's" in said.err


async def returns_bytes(record: Any, pool: Any) -> Any:
    """Returns what JSON has not."""
    return b"x"


@pytest.mark.parametrize("name", ["calm", "letters-alone", "five-tries"])
def test_a_result_that_is_not_json_ends_the_run_with_its_reason_whatever_the_policy_for_errors(
    name: str,
) -> None:
    with pytest.raises(SutError, match="lookup returned bytes for record"):
        simulated(name, sut=f"{__name__}:returns_bytes")


def test_a_function_that_fails_every_time_fails_the_run_and_says_why_trust2() -> None:
    ran = simulated("calm", sut=f"{__name__}:misspelt")

    assert "failed 4 times: the lookup raised SimulatedError: " in str(ran.error)
    assert f"test_scenario_run.py:{misspelt.__code__.co_firstlineno + 2})" in str(ran.error)
    assert judgement_of(ran).outcome is Outcome.FAIL
