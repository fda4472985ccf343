"""Faults of the database on top of each other: each is put back, also in a server that another one has down."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack

import pytest

from harness.faults.model.fault import OutsideFault
from harness.faults.tests.disturbed_run import DisturbedRun
from harness.faults.tests.entries import made
from harness.world.world import World

pytestmark = [pytest.mark.real, pytest.mark.long, pytest.mark.timeout(180)]

LIGHT = (
    made("read_only", id="a"),
    made("schema_change", id="b"),
    made("wait_timeout", id="c"),
    made("oversized_packet", id="d"),
    made("kill_query", id="e"),
    made("kill_connection", id="f"),
)
LOCKING = (
    made("deadlocks", id="a"),
    made("slow_query", id="b", delay="30ms"),
    made("lock_rows", id="c", link="sink"),
)
FULL = (made("lock_rows", id="a", link="lookups"), made("max_connections", id="b"))
GROUPS: Mapping[str, Sequence[OutsideFault]] = {"light": LIGHT, "locking": LOCKING, "full": FULL}
ENDS: Mapping[str, OutsideFault] = {
    "killed": made("db_kill", id="z"),
    "restarted": made("db_restart", id="z"),
    "paused": made("db_pause", id="z"),
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
