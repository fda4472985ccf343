"""Each fault of the database, in each world that can do it: it bites a run's clients, and all is put back."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.faults.model.fault import OutsideFault
from harness.faults.real.evidence import Evidence, Seen
from harness.faults.tests.disturbed_run import DisturbedRun
from harness.faults.tests.entries import made
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
    evidence, _ = bitten(made("db_kill"), "server-process")

    assert evidence["start"] != evidence["next_start"]
    assert evidence["codes"]


def test_a_restarted_server_is_another_one_afterwards(bitten: Bitten) -> None:
    evidence, _ = bitten(made("db_restart"), "server-process")

    assert evidence["start"] != evidence["next_start"]
    assert evidence["codes"]


def test_a_paused_server_answers_nobody(bitten: Bitten) -> None:
    evidence, _ = bitten(made("db_pause"), "server-process")

    assert evidence["answered"] == 0
    assert evidence["pid"]


def test_a_read_only_server_refuses_commits(bitten: Bitten) -> None:
    evidence, _ = bitten(made("read_only"))

    assert evidence["codes"]["1290"] > 0


def test_an_offline_server_lets_nobody_in(bitten: Bitten) -> None:
    evidence, _ = bitten(made("offline_mode"), "offline-mode")

    assert evidence["codes"]["3032"] > 0


def test_locked_rows_make_the_sink_wait(bitten: Bitten) -> None:
    evidence, _ = bitten(made("lock_rows", link="sink"))

    assert evidence["waiting"] == 1


def test_a_locked_table_makes_the_lookups_wait(bitten: Bitten) -> None:
    evidence, _ = bitten(made("lock_rows", link="lookups"))

    assert evidence["waiting"] >= 1


def test_the_sink_is_the_victim_of_deadlocks(bitten: Bitten) -> None:
    evidence, _ = bitten(made("deadlocks"))

    assert evidence["codes"]["1213"] > 0
    assert evidence["counted"] >= evidence["codes"]["1213"]


@pytest.mark.parametrize("link", ["lookups", "sink", None])
def test_killed_statements_are_met_by_clients(bitten: Bitten, link: str | None) -> None:
    evidence, seen = bitten(made("kill_query", link=link))

    assert evidence["codes"]["1317"] > 0
    assert {error[1] for error in seen.errors} <= ({link} if link else {"lookups", "sink"})


def test_killed_sessions_are_lost_connections(bitten: Bitten) -> None:
    evidence, _ = bitten(made("kill_connection"))

    assert evidence["killed"] > 0
    assert evidence["codes"]


def test_a_full_server_admits_nobody(bitten: Bitten) -> None:
    evidence, _ = bitten(made("max_connections"))

    assert evidence["codes"]["1040"] > 0
    assert evidence["refused"] > 0


def test_silent_clients_are_hung_up_on(bitten: Bitten) -> None:
    evidence, _ = bitten(made("wait_timeout", delay="1000ms"))

    assert evidence["hung_up"] > 0
    assert evidence["codes"]


def test_a_large_statement_is_refused(bitten: Bitten) -> None:
    evidence, _ = bitten(made("oversized_packet"))

    assert evidence["codes"]


@pytest.mark.parametrize(("how", "code"), [("column", "1054"), ("table", "1146")])
def test_lookups_miss_what_was_renamed(bitten: Bitten, how: str, code: str) -> None:
    evidence, _ = bitten(made("schema_change", how=how))

    assert evidence["codes"][code] > 0


def test_a_full_disk_refuses_rows(bitten: Bitten) -> None:
    evidence, _ = bitten(made("disk_full"), "small-disk")

    assert evidence["codes"]["1114"] > 0
    assert evidence["bytes_taken"] > 0


@pytest.mark.parametrize("shift_ms", [3_600_000, -86_400_000])
def test_the_servers_calendar_is_off(bitten: Bitten, shift_ms: int) -> None:
    evidence, _ = bitten(made("server_clock", shift=f"{shift_ms}ms"), "server-clock")

    assert abs(evidence["offset_ms"] - shift_ms) < 60_000
    assert evidence["calls_during"] > 0


def test_slow_queries_sleep_in_the_server(bitten: Bitten) -> None:
    evidence, _ = bitten(made("slow_query", delay="80ms"))

    assert evidence["asleep"] > 0
    assert evidence["median_ms"] >= 80


def test_changed_rows_have_their_version_and_nothing_is_put_back_trust6(
    bitten: Bitten, world: World, database: str
) -> None:
    evidence, _ = bitten(made("change_rows", count=3))

    with world.server.of_run(database).root(database) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT k, ver, tier FROM customer ORDER BY n LIMIT 4")
        rows = list(cursor.fetchall())
    assert rows == [(0, 1, 2), (1, 1, 3), (2, 1, 4), (3, 0, 4)]
    assert evidence["version"] == 1
    assert evidence["lookups_since"] > 0


def test_deleted_rows_are_inserted_again_as_the_next_version_trust6(world: World, database: str) -> None:
    """Without traffic, which would miss them."""
    run = DisturbedRun(world, database)

    def changed() -> list[tuple[int, ...]]:
        with made("change_rows", count=3, how="delete").inject(run.site()):
            pass
        with world.server.of_run(database).root(database) as connection, connection.cursor() as cursor:
            cursor.execute("SELECT k, ver, tier FROM customer ORDER BY n LIMIT 4")
            return list(cursor.fetchall())

    assert [row[0] for row in changed()] == [3, 4, 5, 6]
    assert changed() == [(0, 2, 2), (1, 2, 3), (2, 2, 4), (3, 0, 4)]
    told = [(facts["change"], facts["ver"]) for facts in run.traffic.found]
    assert told == [("begin", 1), ("end", 1), ("begin", 2), ("end", 2)]
