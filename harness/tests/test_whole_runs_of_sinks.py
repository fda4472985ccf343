"""Whole runs at level `live` with sinks whose checkpoints are completed elsewhere, and with a store in trouble.

Real processes, a real server and a real proxy. A worker dies, or is paused until its successor has written, at the
points where a two-phase commit is half done; what the database then holds is counted by SQL.
"""

from __future__ import annotations

from collections.abc import Callable
from math import ceil
from pathlib import Path
from typing import Any

import pytest

from harness.database.coordinated_sink import branches_of
from harness.database.endpoint import Endpoint, connect
from harness.history.event import Commit, Done
from harness.history.read import read_whole
from harness.history.verdict import Outcome
from harness.scenario.model import Scenario
from harness.scenario.outcome import RunOutcome
from harness.tests.whole_run import told, whole_run
from harness.world.world import World

pytestmark = [pytest.mark.real, pytest.mark.long]

RECORDS = 300
SINKS = ("two-phase", "idempotent")
KILL = {"id": "kill", "do": "kill_worker", "subtask": 0}
FAR_APART = {"rate": "200/s", "checkpoint_every": 60}
"""300 ms between two checkpoints: at the notification of one its part is the newest, also on a slow machine."""

Performed = Callable[..., RunOutcome]


@pytest.fixture
def performed(world: World, tmp_path: Path) -> Performed:
    """Runs a scenario with these faults, in the shared world."""

    def run(
        sink: str,
        *faults: dict[str, Any],
        decisive: tuple[str, ...] = ("V1", "V8", "V9"),
        workload: dict[str, Any] | None = None,
        **rest: Any,
    ) -> RunOutcome:
        settings = {"rate": "400/s", "checkpoint_every": 40, **(workload or {})}
        scenario = Scenario.model_validate(
            {
                "scenario": "a-run-of-sinks",
                "about": "A run of a test, with a sink whose checkpoints are completed elsewhere.",
                "levels": ["live"],
                "sink": sink,
                "operator": {"mode": "ordered", "timeout": "5s"},
                "workload": {
                    "records": RECORDS,
                    "subtasks": 2,
                    "service": "20ms",
                    "watermark_every": 10,
                    **settings,
                },
                "faults": list(faults),
                "decisive": list(decisive),
                "expects": {
                    "records": 2 * RECORDS,
                    "checkpoints": ceil(RECORDS / settings["checkpoint_every"]),
                },
            }
        )
        return whole_run(scenario, world=world, within=tmp_path, inspect=nothing_is_prepared, **rest)

    return run


def nothing_is_prepared(root: Endpoint) -> None:
    with connect(root) as connection, connection.cursor() as cursor:
        assert branches_of(cursor, root.database) == []


def passed(outcome: RunOutcome) -> bool:
    """Also by SQL; the message of a failure is what the run said."""
    counted = {name: outcome.accounting.get(name, 0) for name in ("doubled", "missing", "disordered")}
    assert outcome.judgement.outcome is Outcome.PASS, told(outcome)
    assert counted == {"doubled": 0, "missing": 0, "disordered": 0}
    return all(fault.bites for fault in outcome.faults)


@pytest.mark.parametrize(
    ("sink", "phase"),
    [
        *(
            ("two-phase", phase)
            for phase in ("snap.end", "store", "ack", "notify", "commit.pre", "commit.post")
        ),
        ("idempotent", "store"),
        ("idempotent", "ack"),
    ],
)
def test_a_worker_that_dies_half_way_through_a_checkpoint_doubles_and_loses_nothing(
    performed: Performed, sink: str, phase: str
) -> None:
    assert passed(performed(sink, {**KILL, "when": {"phase": phase, "hit": 4}}))


@pytest.mark.parametrize("sink", SINKS)
def test_a_worker_that_wakes_after_its_successor_has_written_adds_nothing(
    performed: Performed, sink: str
) -> None:
    zombie = {"id": "zombie", "do": "zombie", "subtask": 0, "for": "2s"}

    outcome = performed(
        sink, {**zombie, "when": {"phase": "commit.pre", "hit": 3}}, decisive=("V1", "V8", "V9", "V13")
    )

    assert passed(outcome)


def test_what_one_attempt_prepared_and_the_next_commits_stands_under_the_first_ones_name(
    performed: Performed,
) -> None:
    outcome = performed(
        "two-phase", {**KILL, "when": {"phase": "notify", "hit": 4}}, decisive=("V8", "V9", "V12", "V13")
    )

    assert passed(outcome)
    _, events = read_whole(outcome.history)
    decided = [event.c for event in events if isinstance(event, Done)]
    commits = [(event.c, event.a) for event in events if isinstance(event, Commit) and event.s == 0]
    assert decided == sorted(set(decided))
    assert (4, 1) in commits
    assert [c for c, _ in commits] == sorted({c for c, _ in commits})
    assert {a for _, a in commits} == {1, 2}


@pytest.mark.parametrize("damage", ["store_torn", "store_newest_missing"])
def test_a_newest_part_that_cannot_be_read_is_passed_over_for_an_older_one(
    performed: Performed, damage: str
) -> None:
    when = {"phase": "notify", "hit": 3}
    damaged = {"id": "damaged", "do": damage, "subtask": 0, "when": when}

    outcome = performed(
        "idempotent",
        damaged,
        {**KILL, "when": when},
        decisive=("V8", "V9", "V10", "V11"),
        workload=FAR_APART,
    )

    assert passed(outcome)


@pytest.mark.parametrize("damage", ["store_torn", "store_newest_missing"])
def test_damage_that_no_restore_meets_is_vacuous(performed: Performed, damage: str) -> None:
    outcome = performed(
        "idempotent",
        {"id": "damaged", "do": damage, "subtask": 0, "when": {"phase": "notify", "hit": 4}},
        draws=1,
    )

    assert outcome.judgement.outcome is Outcome.VACUOUS


@pytest.mark.parametrize(
    "trouble",
    [{"do": "store_slow", "delay": "150ms"}, {"do": "store_failing", "how": "no-space"}],
    ids=["slow", "failing"],
)
def test_a_store_in_trouble_only_delays_checkpoints(performed: Performed, trouble: dict[str, Any]) -> None:
    outcome = performed(
        "two-phase", {"id": "store", "for": "400ms", "when": {"phase": "snap.begin", "hit": 2}, **trouble}
    )

    assert passed(outcome)


def test_trouble_that_comes_when_nothing_is_written_any_more_is_vacuous(performed: Performed) -> None:
    slow = {"id": "store", "do": "store_slow", "delay": "150ms", "for": "1ms", "when": {"at": "1ms"}}

    assert performed("two-phase", slow, draws=1).judgement.outcome is Outcome.VACUOUS
