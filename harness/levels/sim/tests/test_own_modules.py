"""Each simulated attempt has the user's modules to itself, as a worker's process has."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.history.event import Out
from harness.levels.sim.run import Simulated, simulate_scenario
from harness.scenario.file import load_many
from harness.scenario.order import Order
from harness.scenario.settings import apply_settings

LIMITED = """
import asyncio

LIMIT = asyncio.Semaphore(1)


async def lookup(record, pool):
    async with LIMIT:
        row = await pool.fetch_one("SELECT name FROM customer WHERE k = %s", (record.key,))
    return [{"name": row[0]}]
"""
COUNTING = """
from itertools import count

CALLS = count(1)


async def lookup(record, pool):
    return [{"call": next(CALLS)}]
"""
COUNTING_ELSEWHERE = """
async def lookup(record, pool):
    from numbers_of_calls import late

    return [{"call": next(late.CALLS)}]
"""
ONCE = """
import decimal
from itertools import count

if hasattr(decimal, "registered"):
    raise ValueError("registered already")
decimal.registered = True
CALLS = count(1)


async def lookup(record, pool):
    return [{"call": next(CALLS)}]
"""
SMALL = (
    "workload.records=60",
    "workload.checkpoint_every=12",
    "expects.records=120",
    "expects.checkpoints=4",
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of the import path; what was imported from it is forgotten afterwards."""
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]


def simulated(sut: str) -> Simulated:
    """A run of two subtasks, one of which dies once."""
    [scenario] = load_many(["kill-between-snapshot-and-commit"])
    run = simulate_scenario(Order(scenario=apply_settings(scenario, SMALL), level="sim", seed=7, sut=sut))
    assert run.error is None, run.error
    return run


def calls_told(run: Simulated) -> list[list[int]]:
    """The numbers that each attempt's results gave to their calls."""
    of_attempt: dict[tuple[int, int], list[int]] = {}
    for event in run.events:
        if isinstance(event, Out):
            of_attempt.setdefault((event.s, event.a), []).append(event.v["call"])
    return list(of_attempt.values())


@pytest.mark.sweep
def test_a_semaphore_of_the_module_serves_each_attempt(folder: Path) -> None:
    (folder / "limited.py").write_text(LIMITED)

    run = simulated("limited:lookup")

    assert len({event.id for event in run.events if isinstance(event, Out)}) == 120
    assert run.shared_modules is None


def test_what_a_module_counts_is_gone_with_its_attempt(folder: Path) -> None:
    (folder / "counting.py").write_text(COUNTING)

    told = calls_told(simulated("counting:lookup"))

    assert len(told) == 3
    assert [numbers[0] for numbers in told] == [1, 1, 1]


def test_a_module_that_a_call_imports_belongs_to_the_attempt_of_that_call(folder: Path) -> None:
    package = folder / "numbers_of_calls"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "late.py").write_text(COUNTING)
    (folder / "counts_elsewhere.py").write_text(COUNTING_ELSEWHERE)

    told = calls_told(simulated("counts_elsewhere:lookup"))

    assert [numbers[0] for numbers in told] == [1, 1, 1]


def test_the_modules_that_were_imported_before_the_run_are_back_after_it(folder: Path) -> None:
    (folder / "counting.py").write_text(COUNTING)
    import counting  # type: ignore[import-not-found]  # noqa: PLC0415 - the test writes it

    simulated("counting:lookup")

    assert sys.modules["counting"] is counting


def test_a_module_that_refuses_to_be_imported_twice_is_shared_and_that_is_told(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "once.py").write_text(ONCE)
    monkeypatch.delattr("decimal.registered", raising=False)

    run = simulated("once:lookup")

    monkeypatch.delattr("decimal.registered")
    assert min(min(numbers) for numbers in calls_told(run)[1:]) > 1
    assert run.shared_modules is not None
    assert "once, which cannot be imported twice (ValueError: registered already)" in run.shared_modules
