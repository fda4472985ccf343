"""Claims about a real server and its replica behind one proxy: what follows, what is lost, and the way back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from harness.database.probe import OF_PROBE, CommitProbe
from harness.tests.real_world import real_world
from harness.world.mysql_server import REPLICA
from harness.world.proxy_program import PACKETS
from harness.world.server import ask
from harness.world.server_pair import PROBE, ServerPair
from harness.world.world import World

pytestmark = [pytest.mark.real, pytest.mark.timeout(120)]
RUN = "floodmark_pair"


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with real_world("local", proxy="own", needs=frozenset({REPLICA, PACKETS})) as opened:
        yield opened


def pair_of(world: World) -> ServerPair:
    assert isinstance(world.pair, ServerPair)
    return world.pair


def made(world: World) -> None:
    """A table with one row, on both servers."""
    name = f"{RUN}{OF_PROBE}"
    statements = [f"CREATE DATABASE {RUN}", f"CREATE DATABASE {name}", f"CREATE TABLE {RUN}.t (a INT)"]
    ask(world.direct, world.root, *statements, f"INSERT INTO {RUN}.t VALUES (1)", database=None)
    pair_of(world).catch_up()


def through(world: World, link: str, statement: str) -> list[tuple[int, ...]]:
    address = {**world.links, **pair_of(world).links}[link]
    return [tuple(row) for row in ask(address, world.app, statement, database=RUN)]


def test_a_promoted_replica_lacks_what_it_had_not_got_and_all_links_lead_to_it(world: World) -> None:
    pair = pair_of(world)
    with pair.of_run(RUN, f"{RUN}{OF_PROBE}", lookups="primary", stays=False):
        made(world)
        probe = CommitProbe(endpoint=world.app.at(pair.links[PROBE], f"{RUN}{OF_PROBE}"))
        probe.make()
        pair.catch_up()
        pair.stop_receiving()
        through(world, "sink", "INSERT INTO t VALUES (2)")
        probe.turn()
        behind = pair.behind()

        pair.promote()
        pair.move_links(cut=True)
        pair.fence_off(RUN)
        probe.read_at_last()

        assert behind > 0
        assert [row["a"] for row in pair.only_on("primary", RUN, "t")] == [2]
        assert {through(world, link, "SELECT @@server_id")[0] for link in ("sink", "lookups", PROBE)} == {
            (3,)
        }
        assert (probe.operations[0].outcome, probe.operations[-1].seen) == ("ok", [])
        assert world.serving != world.direct
    assert world.serving == world.direct


def test_without_a_cut_live_connections_stay_and_new_ones_reach_the_promoted_server(world: World) -> None:
    pair = pair_of(world)
    with pair.of_run(RUN, f"{RUN}{OF_PROBE}", lookups="primary", stays=False):
        made(world)
        probe = CommitProbe(endpoint=world.app.at(pair.links[PROBE], f"{RUN}{OF_PROBE}"))
        probe.make()
        pair.catch_up()

        pair.promote()
        pair.move_links(cut=False)
        probe.turn()
        new = through(world, PROBE, "SELECT @@server_id")
        ended = pair.fence_off(RUN, read_only=True)
        probe.turn()
        probe.turn()

        assert [one.server for one in probe.operations] == [1, 0, 3]
        assert (new, ended) == ([(3,)], 1)


def test_a_replica_that_applies_nothing_shows_the_past_until_it_has_caught_up(world: World) -> None:
    pair = pair_of(world)
    with pair.of_run(RUN, f"{RUN}{OF_PROBE}", lookups="replica", stays=False):
        made(world)
        pair.stop_applying()
        through(world, "sink", "INSERT INTO t VALUES (2)")
        before = through(world, "lookups", "SELECT a FROM t")

        assert pair.resume()
        assert before == [(1,)]
        assert through(world, "lookups", "SELECT a FROM t") == [(1,), (2,)]


def test_after_a_run_both_servers_are_as_before_it(world: World) -> None:
    pair = pair_of(world)
    names = [name for (name,) in ask(world.direct, world.root, "SHOW DATABASES", database=None)]
    ask(world.direct, world.root, "CREATE TABLE floodmark.later (a INT)", "DROP TABLE floodmark.later")
    pair.catch_up()

    assert not [name for name in names if name.startswith(RUN)]
    assert pair.standing()["receives"]
    assert pair.answering() == 1
