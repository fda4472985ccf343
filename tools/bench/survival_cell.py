"""One cell of the survival table: lookups and commits under one network fault with one seed, counted by SQL.

Answers to Jepsen's bank test, for a client. Invariant: every count comes from the server, past the proxy, from its
tables and its list of sessions; no checker of ours is involved.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import pymysql

from harness.database.checkpoint_store import CheckpointStore
from harness.database.coordinated_sink import CoordinatedSink, IdempotentSink
from harness.database.coordinator import Coordinator
from harness.database.driver import AsyncMySqlDriver, MySqlDriver
from harness.database.endpoint import Endpoint, connect
from harness.database.epoch import CheckpointPart, Visible
from harness.database.pool import ConnectionPool
from harness.database.schema import prepare_database, run_database
from harness.database.sink import EpochSink
from harness.database.store_files import FolderFiles
from harness.database.two_phase_sink import TwoPhaseSink, branches_of
from harness.faults.model.fault import Fault, OutsideFault
from harness.faults.parts.parts import SINK_FORMS, Sink
from harness.faults.real.fault_site import Site, Succession
from harness.faults.registry import FAULTS, FaultName, fault_of
from harness.scenario.workloads.lookups import Lookup
from harness.sut.lookup import ReferenceLookup, own_nonces
from harness.system.choices import Choices
from harness.system.clock import Deadline, monotonic_us, wait_until
from harness.system.process_identity import ProcessIdentity
from harness.world.world import LINKS, World
from reference_impl.mailbox.loops import real_loop

__all__ = ["SINKS", "Counted", "survive"]

SINKS = tuple(SINK_FORMS)

_KEYS = 20
_RECORDS = 60
_AT_ONCE = 8
_EPOCH = 12
"""Records in one commit."""
_SUBTASK = 0
_QUERY_S = 0.8
_CONNECT_S = 0.5
_STATEMENT_S = 1.0
"""Shorter limits than in a run, so that a cell takes a second or two."""
_OF_CONNECTS = ("refuse_connects", "stalled_handshake")
"""Faults that have no effect on existing connections."""
_BITE_S = 1.5
"""How long a fault without a duration stays."""
_LEFT_S = 5.0
"""How long the server may take to end a session that was given up."""

_SESSIONS = "SELECT id FROM information_schema.processlist WHERE db = %s AND user <> %s"

_ROWS = [[key, f"name {key}", f"city {key}", 1 + key % 5] for key in range(_KEYS)]
_WRONG = (
    "SELECT COUNT(*) FROM output LEFT JOIN customer ON customer.k = output.id %% {keys}"
    " WHERE COALESCE(JSON_UNQUOTE(JSON_EXTRACT(output.v, '$.name')), '') <> customer.name"
)
_COUNTS: Mapping[str, str] = {
    "wrong": _WRONG.format(keys=_KEYS).replace("%%", "%"),
    "records": "SELECT COUNT(DISTINCT id) FROM output",
    "doubled": "SELECT COUNT(*) - COUNT(DISTINCT id) FROM audit",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Counted:
    """The server's counts after one cell."""

    bit: bool
    """Whether the fault had an effect: the proxy logged an act, or a client got an error."""
    wrong: int
    lost: int
    doubled: int
    leaked: int
    """Sessions of the cell that still exist, and branches that are still prepared."""
    errors: int
    """Errors of connections and statements that the clients got and recovered from."""
    took_s: float


def survive(world: World, kind: FaultName, *, seed: int, sink: Sink, name: str, folder: Path) -> Counted:
    """Do lookups and commits while faults of `kind` act on both links, in a new database `name`."""
    began_us = monotonic_us()
    with run_database(world.root.at(world.direct, ""), name=name):
        root = world.root.at(world.direct, name)
        prepare_database(root, subtasks=1, rows=_ROWS, keyed=SINK_FORMS[sink].has_output_key)
        cell = _Cell(world, root, sink, seed=seed, store=folder / name)
        marks = {link: _deeds(world, link) for link in LINKS}
        with _faults(world, kind, root, seed=seed) as begin:
            cell.run(begin, after=Choices(seed, f"survival/{kind}/moment").index(_RECORDS // 2))
        done = any(_deeds(world, link) > marks[link] for link in LINKS)
        return _counted(root, done=done or bool(cell.errors), errors=len(cell.errors), since_us=began_us)


class _Cell:
    """The clients of one cell. Mutable: collects their errors."""

    def __init__(self, world: World, root: Endpoint, sink: Sink, *, seed: int, store: Path) -> None:
        self.errors: list[int | str] = []
        self._seed = seed
        self._store = CheckpointStore(FolderFiles(store), subtask=_SUBTASK, seed=seed)
        self._lookups = world.app.at(world.links["lookups"], root.database)
        self._coordinator = Coordinator(MySqlDriver(root), note=lambda kind, **fields: None)
        kinds: dict[str, type[EpochSink | CoordinatedSink]] = {
            "atomic": EpochSink,
            "two-phase": TwoPhaseSink,
            "idempotent": IdempotentSink,
        }
        self._sink: EpochSink | CoordinatedSink = kinds[sink](
            MySqlDriver(world.app.at(world.links["sink"], root.database)),
            subtask=_SUBTASK,
            seed=seed,
            statement_s=_STATEMENT_S,
        )
        self._sink.listen(on_loss=self.errors.append, on_error=self.errors.append)

    def run(self, begin: Callable[[], None], *, after: int) -> None:
        """Run all lookups and commits; calls `begin` when `after` answers have come."""
        if isinstance(self._sink, CoordinatedSink):
            self._sink.take_over(now_ms=1, restore=self._store.restore)
        else:
            self._sink.take_over(now_ms=1)
        try:
            with real_loop() as loop:
                loop.run_until_complete(self._answers(begin, after))
        finally:
            self._sink.close()
            self._coordinator.close()

    async def _answers(self, begin: Callable[[], None], after: int) -> None:
        pool = ConnectionPool(
            AsyncMySqlDriver(self._lookups),
            size=_AT_ONCE,
            seed=self._seed,
            connect_s=_CONNECT_S,
            query_s=_QUERY_S,
            on_loss=self.errors.append,
            on_error=self.errors.append,
        )
        records = iter(_records(self._seed))
        count = epoch = 0
        try:
            while batch := list(islice(records, _EPOCH)):
                for record, answer in zip(batch, await _all(batch, pool), strict=True):
                    (value,) = answer
                    self._sink.add(Visible(id=record.id, j=0, value=value))
                    count += 1
                if count > after:
                    begin()
                epoch += 1
                self._commit(epoch, count)
        finally:
            pool.close()

    def _commit(self, epoch: int, position: int) -> None:
        """Commit like a task: at once, or in two phases."""
        sink = self._sink
        if not isinstance(sink, CoordinatedSink):
            sink.commit(epoch, position=position, elements=[])
            return
        sink.prepare(epoch)
        file = self._store.write(epoch, attempt=sink.token, position=position, elements=[])
        sink.acknowledge(epoch, file=file)
        self._coordinator.poll()
        sink.show(CheckpointPart(epoch=epoch, token=sink.token, file=file))


async def _all(batch: Sequence[Lookup], pool: ConnectionPool) -> list[list[dict[str, Any]]]:
    lookup = ReferenceLookup(own_nonces())
    return list(await asyncio.gather(*(lookup(record, pool) for record in batch)))


def _records(seed: int) -> list[Lookup]:
    choices = Choices(seed, "survival/records")
    return [Lookup(id=id_, key=id_ % _KEYS, service_ms=choices.between(0, 15)) for id_ in range(_RECORDS)]


# ----------------------------------------------------------------------------------------------- faults


@contextmanager
def _faults(world: World, kind: FaultName, root: Endpoint, *, seed: int) -> Iterator[Callable[[], None]]:
    """Gives what injects a fault of `kind` on each link, and returns once both act; healed when the block ends.

    A fault of the n-th COMMIT finds fewer than n if the clients go on before the proxy has the toxic.
    """
    begin = threading.Event()
    over = threading.Event()
    acting = [threading.Event() for _ in LINKS]
    broken: list[BaseException] = []

    def act(link: str, acts: threading.Event) -> None:
        fault = _drawn(kind, link, seed)
        assert isinstance(fault, OutsideFault), "a fault of a link is done from outside"
        site = Site(
            control=world.proxy,
            server=world.server,
            workers=_NoWorkers(),
            found=lambda **facts: None,
            seed=seed,
            over=over,
        )
        begin.wait()
        try:
            with fault.inject(site):
                if kind in _OF_CONNECTS:
                    _end_sessions(root)
                acts.set()
                over.wait(_BITE_S if fault.lasts_ms is None else fault.lasts_ms / 1000)
        except BaseException as error:  # noqa: BLE001 - raised again on the caller's thread
            broken.append(error)
        finally:
            acts.set()

    def begun() -> None:
        begin.set()
        for acts in acting:
            acts.wait()

    threads = [
        threading.Thread(target=act, args=of_one, daemon=True) for of_one in zip(LINKS, acting, strict=True)
    ]
    for thread in threads:
        thread.start()
    try:
        yield begun
    finally:
        begin.set()
        over.set()
        for thread in threads:
            thread.join()
        if broken:
            raise broken[0]


def _end_sessions(root: Endpoint) -> None:
    """Kill the cell's sessions, so that its clients must connect again."""
    with connect(root) as connection, connection.cursor() as cursor:
        cursor.execute(_SESSIONS, (root.database, root.user))
        for (session,) in cursor.fetchall():
            with suppress(pymysql.MySQLError):  # it has ended already
                cursor.execute(f"KILL {int(session)}")


class _NoWorkers:
    """A `harness.faults.real.fault_site.Workers` without workers."""

    def process(self, subtask: int) -> ProcessIdentity | None:
        del subtask
        return None

    def supersede(self, subtask: int) -> Succession:
        """Always raises: there are no workers."""
        raise LookupError(f"subtask {subtask} has no worker here")

    def executor(self) -> ProcessIdentity | None:
        return None

    def spark(self) -> None:
        return


def _drawn(kind: FaultName, link: str, seed: int) -> Fault:
    """A fault of `kind` on `link`, with drawn settings."""
    choices = Choices(seed, f"survival/{kind}/{link}")
    drawn: dict[str, Any] = {
        "for": f"{choices.between(150, 600)}ms",
        "delay": f"{choices.between(10, 120)}ms",
        "jitter": f"{choices.between(5, 60)}ms",
        "direction": ("up", "down")[choices.index(2)],
        "rate": f"{choices.between(2, 16)}kB/s",
        "bytes": choices.between(1, 600),
        "gap": f"{choices.between(1, 5)}ms",
        "open": f"{choices.between(20, 90)}ms",
        "closed": f"{choices.between(20, 120)}ms",
        "nth": choices.between(1, 4),
    }
    form = FAULTS[kind]
    if codes := form.choices("code"):
        drawn["code"] = codes[choices.index(len(codes))]
    optional = {"nth", "direction"} & set(form.takes())
    fields = {
        name: value
        for name, value in drawn.items()
        if name in form.needs() or name in optional or name == "code"
    }
    return fault_of({"id": f"f-{link}", "do": kind, "link": link, "when": {"at": "0ms"}, **fields})


def _deeds(world: World, link: str) -> int:
    """The number of log entries of `link` so far."""
    read = world.proxy.deeds(link, 2**31)
    return 0 if read is None else read.next


# ------------------------------------------------------------------------------------------------ counts


def _counted(root: Endpoint, *, done: bool, errors: int, since_us: int) -> Counted:
    with connect(root) as connection, connection.cursor() as cursor:

        def left() -> int:
            connection.rollback()
            cursor.execute(
                "SELECT COUNT(*) FROM information_schema.processlist WHERE db = %s AND id <> CONNECTION_ID()",
                (root.database,),
            )
            return int(cursor.fetchone()[0]) + len(branches_of(cursor, root.database))

        wait_until(lambda: not left(), deadline=Deadline(_LEFT_S))
        counts = {}
        for name, query in _COUNTS.items():
            cursor.execute(query)
            counts[name] = int(cursor.fetchone()[0])
        return Counted(
            bit=done,
            wrong=counts["wrong"],
            lost=_RECORDS - counts["records"],
            doubled=counts["doubled"],
            leaked=left(),
            errors=errors,
            took_s=(monotonic_us() - since_us) / 1e6,
        )
