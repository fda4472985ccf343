"""Whole runs at level `live`: faults of the sink, a user's own lookup, and every ending is told.

Real processes, a real server and a real proxy; what is asserted is what a user reads, and the database's own rows.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from harness.engine.level import Observer, Stop
from harness.history.event import Failed, GiveUp, Kill, Start
from harness.history.read import read_whole
from harness.history.verdict import Outcome
from harness.scenario.catalogue import catalogue
from harness.scenario.file import apply_settings, load
from harness.scenario.model import Scenario
from harness.scenario.outcome import RunOutcome
from harness.system.errors import Exit
from harness.tests.whole_run import links_are_free, told, whole_run
from harness.world.world import World

pytestmark = [pytest.mark.real, pytest.mark.long]

_numbers = count(1)
Performed = Callable[..., RunOutcome]


class Watching(Observer):
    """Stops the run as soon as a phase's text, or how it stands, is what was waited for."""

    def __init__(self, *, text: str = "nothing that is ever said", emitted: int = 1_000_000) -> None:
        self.stop = Stop()
        self._text = text
        self._emitted = emitted
        self._lag: int | None = None

    def phase(self, name: str, text: str) -> None:
        if self._text in text:
            self.stop.set()

    def standing(
        self, *, in_flight: int, lag: int, epoch: int, faults: Mapping[str, bool], elapsed_s: float
    ) -> None:
        self._lag = lag if self._lag is None else self._lag
        if self._lag - lag >= self._emitted:
            self.stop.set()


@pytest.fixture
def performed(world: World, tmp_path: Path) -> Iterator[Performed]:
    """Runs an order in the shared world; afterwards nothing of it may act on a link."""

    def run(
        scenario: Scenario, *, watch: Watching | None = None, limit_s: float | None = None, **order: Any
    ) -> RunOutcome:
        return whole_run(
            scenario,
            world=world,
            within=tmp_path,
            observer=watch,
            stop=watch.stop if watch else None,
            limit_s=limit_s,
            **order,
        )

    yield run
    assert links_are_free(world)


def shipped(name: str, *settings: str) -> Scenario:
    return apply_settings(load(catalogue()[name]), settings)


def small(*settings: str) -> Scenario:
    """The calm scenario, over in half a second."""
    sizes = ("workload.records=120", "workload.rate=600/s", "workload.service=5ms", "expects.records=1")
    return shipped("calm", *sizes, "expects.checkpoints=1", *settings)


@pytest.mark.parametrize("fault", ["latency", "down", "reset"])
def test_a_fault_of_the_sinks_link_bites_and_every_epoch_still_counts_once(
    performed: Performed, fault: str
) -> None:
    """A commit whose answer is late or lost is settled; the lookups' link is left alone (V8, V9, V12)."""
    drafted = load(catalogue()["latency-spike-ordered"]).model_dump(mode="json", by_alias=True)
    acts = {"id": "spike", "do": fault, "link": "sink", "when": {"checkpoint": 1}, "for": "600ms"}
    # A delay must meet five commits to show, however few a loaded machine makes in a while: it lasts for all of them.
    delay = {"delay": "30ms", "for": "10s"} if fault == "latency" else {}
    workload = {**drafted["workload"], "records": 400, "service": "10ms", "checkpoint_every": 20}
    scenario = Scenario.model_validate(
        {**drafted, "workload": workload, "faults": [acts | delay], "expects": {}, "decisive": ["V1", "V8"]}
    )

    outcome = performed(scenario)

    assert outcome.judgement.outcome is Outcome.PASS, told(outcome)
    assert outcome.faults[0].evidence
    assert (outcome.accounting["rows"], outcome.accounting["doubled"]) == (800, 0)


def test_a_run_whose_budget_is_over_is_never_a_pass_nor_called_stuck_while_it_goes_on(
    performed: Performed,
) -> None:
    outcome = performed(shipped("calm", "workload.rate=10/s"), limit_s=0.6)

    assert outcome.judgement.outcome.exit_code is Exit.UNDECIDED, told(outcome)
    assert outcome.error == "the budget of 0.6 s is over"
    assert not outcome.interrupted
    _, events = read_whole(outcome.history)
    assert not [event for event in events if isinstance(event, GiveUp)]


def test_a_run_that_is_stopped_under_way_is_unknown_and_its_attempts_are_dead(performed: Performed) -> None:
    outcome = performed(shipped("calm", "workload.rate=50/s"), watch=Watching(emitted=20))

    assert outcome.judgement.outcome is Outcome.UNKNOWN, told(outcome)
    assert outcome.interrupted
    assert outcome.error == "interrupted"
    _, events = read_whole(outcome.history)
    started = {(event.s, event.a) for event in events if isinstance(event, Start)}
    assert {(event.s, event.a) for event in events if isinstance(event, Kill)} == started
    assert len(started) == 2


def test_a_run_that_is_stopped_under_a_fault_is_healed(performed: Performed) -> None:
    """The fixture looks at the links afterwards."""
    silence = ("faults.silence.for=30s", "faults.silence.when={at: 0ms}")
    long = "workload.records=4000"  # it must not be over before the fault takes effect

    outcome = performed(
        shipped("blackhole-with-default", *silence, long), watch=Watching(text="silence took effect")
    )

    (fault,) = outcome.faults
    assert fault.armed_us is not None
    assert fault.healed_us is not None
    assert outcome.judgement.outcome.exit_code is Exit.UNDECIDED, told(outcome)


@pytest.fixture
def theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], dict[str, Any]]:
    """Writes a user's module; what an order needs to use its `lookup`."""

    def module(body: str) -> dict[str, Any]:
        name = f"their_lookup_{next(_numbers)}"
        (tmp_path / f"{name}.py").write_text(body)
        monkeypatch.syspath_prepend(tmp_path)
        return {"sut": f"{name}:lookup", "import_path": (str(tmp_path),)}

    return module


THEIR_TROUBLE = """
async def lookup(record):
    if record.id == 41:
        raise ValueError("their own trouble")
    return record.key
"""
THEIR_LOOKUP = """
async def lookup(record, pool):
    return await pool.fetch_one("SELECT name FROM customer WHERE k = %s", (record.key,))
"""


def test_a_users_own_lookup_that_works_passes(
    performed: Performed, theirs: Callable[[str], dict[str, Any]]
) -> None:
    body = THEIR_LOOKUP.replace("return await", "row = await") + "    return [row[0]]\n"

    outcome = performed(small(), **theirs(body))

    assert outcome.judgement.outcome is Outcome.PASS, told(outcome)
    assert outcome.accounting["records"] == 240


def test_a_users_lookup_that_fails_ends_its_attempts_after_four_and_does_not_pass(
    performed: Performed, theirs: Callable[[str], dict[str, Any]]
) -> None:
    outcome = performed(small(), **theirs(THEIR_TROUBLE))

    assert outcome.judgement.outcome is not Outcome.PASS, told(outcome)
    assert "subtask 1 failed 4 times" in (outcome.error or "")
    assert "their own trouble" in (outcome.error or "")
    _, events = read_whole(outcome.history)
    failures = Counter(event.s for event in events if isinstance(event, Failed))
    assert failures == {1: 4}
    assert {event.id for event in events if isinstance(event, Failed)} == {41}
    assert Counter(event.s for event in events if isinstance(event, Start))[1] == 4


def test_a_users_process_that_dies_is_reaped_restarted_and_given_up_after_four(
    performed: Performed, theirs: Callable[[str], dict[str, Any]]
) -> None:
    body = (
        "import os\nasync def lookup(record):\n    if record.id == 41: os._exit(9)\n    return record.key\n"
    )

    outcome = performed(small(), **theirs(body))

    assert "subtask 1 failed 4 times" in (outcome.error or "")
    _, events = read_whole(outcome.history)
    assert Counter(event.s for event in events if isinstance(event, Kill))[1] == 4
    assert outcome.judgement.outcome is not Outcome.PASS, told(outcome)


def test_what_a_users_function_prints_is_in_the_workers_log(
    performed: Performed, theirs: Callable[[str], dict[str, Any]]
) -> None:
    outcome = performed(small(), **theirs("async def lookup(record):\n    print('hello from', record.id)\n"))

    logs = sorted(outcome.history.parent.glob("worker-*.log"))
    assert [log.name for log in logs] == ["worker-000.log", "worker-001.log"]
    assert "hello from 1\n" in logs[1].read_text()


def test_the_passwords_are_in_no_file_of_a_run(performed: Performed, world: World) -> None:
    outcome = performed(shipped("kill-between-snapshot-and-commit"))

    files = [
        path
        for folder in (outcome.history.parent, world.folder)
        for path in folder.rglob("*")
        if path.is_file()
    ]
    assert len(files) > 6
    for secret in (world.app.password, world.root.password):
        holding = [path for path in files if secret.encode() in path.read_bytes()]
        assert holding == []
