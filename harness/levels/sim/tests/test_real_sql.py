"""Lookups with the pool at level sim, whose SQL a real server answers: `--sql real`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from asyncmy.errors import MySQLError

from harness.database.driver import AsyncMySqlDriver
from harness.database.pool import ConnectionPool
from harness.database.simulated.tables import Customers, StatementFailed
from harness.engine.level import refuse
from harness.history.verdict import Outcome
from harness.levels import level_named
from harness.levels.sim.drivers import AT
from harness.levels.sim.real_tables import RealTables
from harness.levels.sim.tests.test_own_clients_sim import (
    CUT,
    LATE,
    Performed,
    kinds,
    opened,
    performed,
    shop_at_sim,
)
from harness.levels.sim.tests.test_real_clients import CALM
from harness.levels.sim.tests.wired_clients import Wired, play
from harness.scenario.file import apply_settings
from harness.scenario.order import Order
from harness.system.errors import SutError, UsageError
from harness.testing import running
from harness.tests.tidy import ROOT
from harness.tests.whole_run import told

__all__ = ["opened", "performed"]

pytestmark = [pytest.mark.real, pytest.mark.timeout(180)]

LOOKUPS = "pool_lookups"
REAL = apply_settings(CUT, ["sql=real"])


@pytest.fixture(autouse=True)
def _beside_the_users_modules(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(Path(__file__).parent)


SAME = "as the model"
ROWS = [[1, "Ada", "Oslo", 3], [2, "bob", "Bonn", 1], [3, "Bob", "Ärhus", 7]]
READ = [
    ("SELECT name FROM customer WHERE name = 'BOB'", [], [("bob",), ("Bob",)]),
    ("SELECT name FROM customer WHERE city = 'arhus'", [], [("Bob",)]),
    ("SELECT name FROM customer WHERE k = '2x'", [], [("bob",)]),
    ("SELECT name || '!' FROM customer WHERE k = 1", [("Ada!",)], [(0,)]),
    ("SELECT tier / 2 FROM customer WHERE k = 1", [(1,)], "[(Decimal('1.5000'),)]"),
    ("SELECT LENGTH(city) FROM customer WHERE k = 3", [(5,)], [(6,)]),
    ('SELECT "name" FROM customer WHERE k = 1', [("Ada",)], [("name",)]),
    ("SELECT name FROM customer ORDER BY name, k", [("Ada",), ("Bob",), ("bob",)], [("Ada",), ("bob",), ("Bob",)]),
    ("SELECT name FROM CUSTOMER WHERE k = 1", [("Ada",)], 1146),
    ("SELECT name FROM customer WHERE name LIKE 'b%%'", [("bob",), ("Bob",)], SAME),
    ("SELECT IFNULL(part, -1) FROM customer WHERE k = 1", [(-1,)], SAME),
    ("SELECT SUM(tier) FROM customer", [(11,)], SAME),
    ("SELECT CONCAT(name, '!') FROM customer WHERE k = 1", 1064, [("Ada!",)]),
    ("SELECT IF(tier > 2, 'a', 'b') FROM customer WHERE k = 1", 1064, [("a",)]),
    ("SELECT tier DIV 2 FROM customer WHERE k = 1", 1064, [(1,)]),
    ("SELECT name FROM customer WHERE k = 1 FOR UPDATE", 1064, [("Ada",)]),
    ("SELECT YEAR(NOW())", 1064, [(2026,)]),
]  # fmt: skip
"""Statements; what SQLite reads, and what MariaDB does: rows, or the number of the error."""


def test_what_sqlite_reads_otherwise_than_the_server(opened: RealTables) -> None:
    opened.fill(CALM, ROWS)
    real: list[Any] = []

    async def script(wired: Wired) -> None:
        del wired
        pool = ConnectionPool(AsyncMySqlDriver(AT), size=1, seed=1)
        for sql, _, _ in READ:
            try:
                real.append([tuple(row) for row in await pool.fetch_all(sql, ())])
            except MySQLError as error:
                real.append(error.args[0])
        pool.close()

    play(opened, script)
    modelled: list[Any] = []
    for sql, _, _ in READ:
        try:
            modelled.append([tuple(row) for row in Customers(ROWS).select(sql, ())[0]])
        except StatementFailed as error:
            modelled.append(error.code)

    assert modelled == [model for _, model, _ in READ]
    for found, (sql, model, server) in zip(real, READ, strict=True):
        wanted = model if server == SAME else server
        assert (repr(found) if isinstance(wanted, str) else found) == wanted, sql


def test_a_lookup_whose_sql_sqlite_refuses_passes_with_a_server(performed: Performed) -> None:
    outcome = performed(REAL, f"{LOOKUPS}:of_rank")

    assert outcome.judgement.outcome is Outcome.PASS, told(outcome)
    (time,) = outcome.faults[0].times
    assert time.evidence["connections_lost"] >= 1
    assert outcome.world.is_half_real


def test_what_sqlite_refuses_names_the_option(performed: Performed) -> None:
    with pytest.raises(SutError, match="--sql real asks a server"):
        performed(CUT, f"{LOOKUPS}:of_rank")


def test_one_seed_gives_one_history_in_another_process_with_the_pool_d2(
    performed: Performed, tmp_path: Path
) -> None:
    command = [
        sys.executable,
        "-m",
        "harness",
        "run",
        "cancel-storm",
        "--level",
        "sim",
        "--sql",
        "real",
        "--seed",
        "5",
    ]
    command += ["--sut", f"{LOOKUPS}:of_rank", "--world", "local", "--quiet", "--keep", "always"]
    histories = []
    for seed in ("1", "77"):
        folder = tmp_path / seed
        subprocess.run(
            [*command, "--report", str(folder)],
            env={"PYTHONHASHSEED": seed, "PATH": "/usr/bin:/bin", "PYTHONPATH": f"{ROOT}:{Path(__file__).parent}"},
            cwd=tmp_path, capture_output=True, text=True, check=True,
        )  # fmt: skip
        (history,) = folder.rglob("history.jsonl*")
        histories.append(history.read_bytes())

    assert histories[0] == histories[1]


@pytest.mark.parametrize(
    ("lookup", "found"), [("charges", set()), ("charges_again", {("V9", "row-doubled")})]
)
def test_own_tables_are_had_with_the_pool_too_and_the_rows_are_judged_u4(
    performed: Performed, tmp_path: Path, lookup: str, found: set[tuple[str, str]]
) -> None:
    outcome = performed(shop_at_sim(tmp_path), f"{LOOKUPS}:{lookup}")

    assert kinds(outcome) == found, told(outcome)


def test_from_python_a_scenario_says_who_answers() -> None:
    outcome = running.run(REAL, sut=f"{LOOKUPS}:of_rank", seed=1, world="local")

    assert outcome.verdict.outcome is Outcome.PASS, outcome.verdict


@pytest.mark.parametrize(
    ("sql", "sut", "level", "what"),
    [
        ("real", "reference", "sim", "for a lookup of your own"),
        ("model", "harness.levels.live.tests.own_clients:AioMySql", "sim", "brings its own client"),
        ("model", f"{LOOKUPS}:of_rank", "live", "a run at level live has a real server"),
    ],
)
def test_an_sql_that_the_run_cannot_have_is_refused(sql: str, sut: str, level: str, what: str) -> None:
    order = Order(scenario=apply_settings(CUT, [f"sql={sql}"]), level=level, seed=1, sut=sut)

    with pytest.raises(UsageError, match=what):
        refuse(order, level_named(level))


def test_a_pool_that_waits_for_ever_is_stuck_with_the_users_line(performed: Performed) -> None:
    outcome = performed(apply_settings(LATE, ["sql=real"]), f"{LOOKUPS}:waits", expected="none")

    assert kinds(outcome) == {("V16", "stuck")}, told(outcome)
    assert outcome.error is not None
    assert "pool_lookups.py:" in outcome.error
