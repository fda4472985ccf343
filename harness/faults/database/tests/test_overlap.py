"""Faults of the database on top of each other: each is put back, also in a server that another one has down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack

import pytest

from harness.faults.database.db_kill import DatabaseKill
from harness.faults.database.db_pause import DatabasePause
from harness.faults.database.db_restart import DatabaseRestart
from harness.faults.database.deadlocks import Deadlocks
from harness.faults.database.kill_connection import KillConnection
from harness.faults.database.kill_query import KillQuery
from harness.faults.database.lock_rows import LockRows
from harness.faults.database.max_connections import MaxConnections
from harness.faults.database.oversized_packet import OversizedPacket
from harness.faults.database.read_only import ReadOnly
from harness.faults.database.schema_change import SchemaChange
from harness.faults.database.slow_query import SlowQuery
from harness.faults.database.tests.disturbed_run import DisturbedRun
from harness.faults.database.wait_timeout import WaitTimeout
from harness.faults.fault import OutsideFault
from harness.world.world import World

pytestmark = [pytest.mark.real, pytest.mark.timeout(180)]

LIGHT = (
    ReadOnly(name="a"),
    SchemaChange(name="b"),
    WaitTimeout(name="c"),
    OversizedPacket(name="d"),
    KillQuery(name="e", seed=1),
    KillConnection(name="f", seed=1),
)
LOCKING = (Deadlocks(name="a"), SlowQuery(name="b", delay_ms=30), LockRows(name="c", link="sink"))
FULL = (LockRows(name="a", link="lookups"), MaxConnections(name="b"))
GROUPS: Mapping[str, Sequence[OutsideFault]] = {"light": LIGHT, "locking": LOCKING, "full": FULL}
ENDS: Mapping[str, OutsideFault] = {
    "killed": DatabaseKill(name="z"),
    "restarted": DatabaseRestart(name="z"),
    "paused": DatabasePause(name="z"),
}


@pytest.mark.parametrize("end", [*ENDS])
@pytest.mark.parametrize("group", [*GROUPS])
def test_what_others_changed_is_put_back_while_the_server_is(
    world: World, database: str, group: str, end: str
) -> None:
    """They heal first, in the reverse order; the server stands again only then."""
    run = DisturbedRun(world, database)

    with run.flowing(), ExitStack() as outer, ExitStack() as inner:
        arm(inner, run, GROUPS[group])
        arm(outer, run, [ENDS[end]])


@pytest.mark.parametrize("end", ["killed", "paused"])
def test_what_others_changed_is_put_back_after_the_server_was(world: World, database: str, end: str) -> None:
    """The server comes and goes while they act, and they heal afterwards."""
    run = DisturbedRun(world, database)

    with run.flowing(), ExitStack() as inner:
        arm(inner, run, LIGHT)
        with ENDS[end].inject(run.site()):
            pass
        with ENDS[end].inject(run.site()):
            pass


def arm(stack: ExitStack, run: DisturbedRun, faults: Sequence[OutsideFault]) -> None:
    for fault in faults:
        site = run.site()
        stack.enter_context(fault.inject(site))
        stack.callback(site.over.set)
