"""What a job's run stands on: its database with the tables to look up, its source, its folders and its links.

Invariant: everything is made anew for each run, and is gone with it; the passwords are those of the world.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Final

import pymysql

from harness.database.endpoint import Endpoint, connect
from harness.database.own_tables import OwnTables, fill_own_tables, read_own_tables
from harness.database.probe import OF_PROBE
from harness.database.schema import run_database
from harness.engine.two_servers import TwoServers, two_servers
from harness.levels.job.job_database import JobDatabase
from harness.levels.job.job_file import JobFile
from harness.levels.job.job_run import JobRun, JobSetup
from harness.levels.job.order import JobOrder
from harness.levels.job.records import JobInput
from harness.levels.job.sources import SourceSite, source_of
from harness.scenario.workloads.lookups import customer_rows
from harness.system.errors import UsageError, WorldError
from harness.world.standalone_cluster import ClusterSize, open_cluster
from harness.world.world import DATABASE, Address, World

_MAKE_CUSTOMER: Final = (
    "CREATE TABLE customer (k {kind} NOT NULL PRIMARY KEY, name VARCHAR(200) NOT NULL, city VARCHAR(200) NULL,"
    " tier BIGINT NOT NULL)"
)


@contextmanager
def prepared_ground(run: JobRun, *, folder: Path) -> Iterator[None]:
    """Makes it for the block. Raises UsageError if a file of the user's is refused, WorldError if the world fails."""
    order, world, name = run.order, run.world, f"{DATABASE}_{run.run_id.replace('-', '_')}"
    for inside in ("state", "logs"):
        (folder / inside).mkdir(parents=True)
    root = world.root.at(world.direct, name)
    beside, stays = (name, f"{name}{OF_PROBE}"), run.site.keeps_database and not run.is_calm
    with (
        two_servers(world, order.scenario, databases=beside, stays=stays) as second,
        run_database(world.root.at(world.direct, ""), name=name, stays=stays),
        ExitStack() as stack,
    ):
        database = _database(order, root, world, second)
        stack.callback(database.close)
        _fill(order, run.given, root)
        database.settle()
        lookups = list(database.tables())
        sink = _sink_table(order.job)
        if sink is not None:
            fill_own_tables(root, sink)
        if second is not None:
            second.pair.catch_up()
            stack.enter_context(second.probed(folder))
        source = source_of(order.job, is_calm=run.is_calm)
        links = {link: world.app.at(address, name) for link, address in world.links.items()}
        stack.callback(source.close)
        source.open(
            SourceSite(
                folder=folder / "source",
                direct=root,
                sink=links["sink"],
                partitions=order.job.source.partitions,
                run_id=name,
                note_process=run.note_process,
            )
        )
        size = order.job.job.cluster
        cluster = stack.enter_context(open_cluster(ClusterSize(workers=size))).address if size else None
        run.ground = JobSetup(
            database=database,
            source=source,
            links=links,
            state=folder / "state",
            state_made_ns=(folder / "state").stat().st_mtime_ns,
            done=folder / "done",
            logs=folder / "logs",
            cluster=cluster,
            lookup_tables=lookups,
            second=second,
        )
        # The server directly in it whose log of changes counts.
        run.world = replace(world, direct=Address(host=database.root.host, port=database.root.port))
        yield


def _database(order: JobOrder, root: Endpoint, world: World, second: TwoServers | None) -> JobDatabase:
    """Where a replica may be promoted, its table and its log are those that count, from the beginning on."""
    if second is None or not order.scenario.loses_commits:
        return JobDatabase(root=root)
    pair, name = second.pair, root.database
    return JobDatabase(
        root=world.root.at(pair.replica_address, name),
        writes=lambda: world.root.at(pair.serving_address, name),
        settle=lambda: pair.catch_up() if pair.serving == "primary" else None,
    )


def _fill(order: JobOrder, given: JobInput, root: Endpoint) -> None:
    """The tables to look up: the user's, or `customer` with a row for each key."""
    own = _lookup_tables(order.job)
    if own is not None:
        fill_own_tables(root, own)
        return
    kind = "BIGINT" if all(isinstance(key, int) for key in given.keys) else "VARCHAR(200)"
    keys = tuple(key if kind == "BIGINT" else str(key) for key in sorted(given.keys, key=str))
    rows = _customers(keys, order.drawn_by)
    try:
        with connect(root) as connection, connection.cursor() as cursor:
            cursor.execute(_MAKE_CUSTOMER.format(kind=kind))
            cursor.executemany("INSERT INTO customer (k, name, city, tier) VALUES (%s, %s, %s, %s)", rows)
            connection.commit()
    except pymysql.MySQLError as error:
        message = f"the database refused the table customer: {error.args}"
        raise WorldError(message, fix="floodmark doctor shows what the world lacks") from error


@lru_cache(maxsize=8)
def _customers(keys: tuple[int | str, ...], seed: int) -> Sequence[Sequence[object]]:
    """Drawn once for all runs of a sweep."""
    return customer_rows(keys=keys, seed=seed)


def read_files(order: JobOrder) -> None:
    """Reads the user's files of SQL and data. Raises UsageError with file and line, before anything starts."""
    job = order.job
    if job.lookups.data and job.lookups.schema_file is None:
        raise UsageError(
            "lookups.data fills the tables of `lookups.schema`, and there is none", fix="name it"
        )
    _lookup_tables(job)
    _sink_table(job)


def _lookup_tables(job: JobFile) -> OwnTables | None:
    """The user's tables to look up; None: there are none."""
    own = job.lookups
    if own.schema_file is None:
        return None
    return read_own_tables(str(job.path(own.schema_file)), [str(job.path(one)) for one in own.data])


def _sink_table(job: JobFile) -> OwnTables | None:
    """The table that the user's file makes for the sink; None: the job makes it."""
    file = job.sink.schema_file
    return None if file is None else read_own_tables(str(job.path(file)), ())
