"""Each fault of the database, in each world that can do it: it bites a run's clients, and all is put back."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.faults.database.db_kill import DatabaseKill
from harness.faults.database.db_pause import DatabasePause
from harness.faults.database.db_restart import DatabaseRestart
from harness.faults.database.deadlocks import Deadlocks
from harness.faults.database.disk_full import DiskFull
from harness.faults.database.kill_connection import KillConnection
from harness.faults.database.kill_query import KillQuery
from harness.faults.database.lock_rows import LockRows
from harness.faults.database.max_connections import MaxConnections
from harness.faults.database.offline_mode import OfflineMode
from harness.faults.database.oversized_packet import OversizedPacket
from harness.faults.database.read_only import ReadOnly
from harness.faults.database.schema_change import SchemaChange
from harness.faults.database.server_clock import ServerClock
from harness.faults.database.slow_query import SlowQuery
from harness.faults.database.tests.disturbed_run import DisturbedRun
from harness.faults.database.wait_timeout import WaitTimeout
from harness.faults.fault import Evidence, OutsideFault
from harness.faults.seen import Seen
from harness.world.world import World

pytestmark = [pytest.mark.real, pytest.mark.timeout(120)]

Bitten = Callable[..., tuple[Evidence, Seen]]


@pytest.fixture
def bitten(world: World, database: str) -> Bitten:
    """Arm a fault over real traffic, heal it when it has bitten, and see that the traffic goes on."""

    def bitten(fault: OutsideFault, ability: str = "") -> tuple[Evidence, Seen]:
        if ability in world.lacks:
            pytest.skip(f"{world.description.kind}: {world.lacks[ability]}")
        return DisturbedRun(world, database).bitten(fault)

    return bitten


def test_a_killed_server_is_another_one_afterwards(bitten: Bitten) -> None:
    evidence, _ = bitten(DatabaseKill(name="f"), "server-process")

    assert evidence["start"] != evidence["next_start"]
    assert evidence["codes"]


def test_a_restarted_server_is_another_one_afterwards(bitten: Bitten) -> None:
    evidence, _ = bitten(DatabaseRestart(name="f"), "server-process")

    assert evidence["start"] != evidence["next_start"]
    assert evidence["codes"]


def test_a_paused_server_answers_nobody(bitten: Bitten) -> None:
    evidence, _ = bitten(DatabasePause(name="f"), "server-process")

    assert evidence["answered"] == 0
    assert evidence["pid"]


def test_a_read_only_server_refuses_commits(bitten: Bitten) -> None:
    evidence, _ = bitten(ReadOnly(name="f"))

    assert evidence["codes"]["1290"] > 0


def test_an_offline_server_lets_nobody_in(bitten: Bitten) -> None:
    evidence, _ = bitten(OfflineMode(name="f"), "offline-mode")

    assert evidence["codes"]["3032"] > 0


def test_locked_rows_make_the_sink_wait(bitten: Bitten) -> None:
    evidence, _ = bitten(LockRows(name="f", link="sink"))

    assert evidence["waiting"] == 1


def test_a_locked_table_makes_the_lookups_wait(bitten: Bitten) -> None:
    evidence, _ = bitten(LockRows(name="f", link="lookups"))

    assert evidence["waiting"] >= 1


def test_the_sink_is_the_victim_of_deadlocks(bitten: Bitten) -> None:
    evidence, _ = bitten(Deadlocks(name="f"))

    assert evidence["codes"]["1213"] > 0
    assert evidence["counted"] >= evidence["codes"]["1213"]


@pytest.mark.parametrize("link", ["lookups", "sink", None])
def test_killed_statements_are_met_by_clients(bitten: Bitten, link: str | None) -> None:
    evidence, seen = bitten(KillQuery(name="f", seed=7, link=link))

    assert evidence["codes"]["1317"] > 0
    assert {error[1] for error in seen.errors} <= ({link} if link else {"lookups", "sink"})


def test_killed_sessions_are_lost_connections(bitten: Bitten) -> None:
    evidence, _ = bitten(KillConnection(name="f", seed=7))

    assert evidence["killed"] > 0
    assert evidence["codes"]


def test_a_full_server_admits_nobody(bitten: Bitten) -> None:
    evidence, _ = bitten(MaxConnections(name="f"))

    assert evidence["codes"]["1040"] > 0
    assert evidence["refused"] > 0


def test_silent_clients_are_hung_up_on(bitten: Bitten) -> None:
    evidence, _ = bitten(WaitTimeout(name="f", delay_ms=1000))

    assert evidence["hung_up"] > 0
    assert evidence["codes"]


def test_a_large_statement_is_refused(bitten: Bitten) -> None:
    evidence, _ = bitten(OversizedPacket(name="f"))

    assert evidence["codes"]


@pytest.mark.parametrize(("how", "code"), [("column", "1054"), ("table", "1146")])
def test_lookups_miss_what_was_renamed(bitten: Bitten, how: str, code: str) -> None:
    evidence, _ = bitten(SchemaChange(name="f", how=how))

    assert evidence["codes"][code] > 0


def test_a_full_disk_refuses_rows(bitten: Bitten) -> None:
    evidence, _ = bitten(DiskFull(name="f"), "small-disk")

    assert evidence["codes"]["1114"] > 0
    assert evidence["bytes_taken"] > 0


@pytest.mark.parametrize("shift_ms", [3_600_000, -86_400_000])
def test_the_servers_calendar_is_off(bitten: Bitten, shift_ms: int) -> None:
    evidence, _ = bitten(ServerClock(name="f", shift_ms=shift_ms), "server-clock")

    assert abs(evidence["offset_ms"] - shift_ms) < 1000
    assert evidence["calls_during"] > 0


def test_slow_queries_sleep_in_the_server(bitten: Bitten) -> None:
    evidence, _ = bitten(SlowQuery(name="f", delay_ms=80))

    assert evidence["asleep"] > 0
    assert evidence["median_ms"] >= 80
