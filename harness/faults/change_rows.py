"""`change_rows`: the rows of some keys in the looked-up table become the next version, while the run goes on.

Answers to a reference table that another application writes. The version stands in each row (`ver`), and `tier` rises
by one, so the answer changes too. With `how: delete` a version is that the rows are gone, and the next one that they
are there again. The change begins before its first statement is sent and ends after its COMMIT was acknowledged, or,
where lookups ask a replica, when that has it; the history tells both. Nothing is put back at the end: the table keeps
its newest version.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from msgspec import UNSET

from harness.faults.model.fault import ServerFault
from harness.faults.model.fields import Count, UntilEffective, Way
from harness.faults.real.evidence import Evidence, Seen
from harness.faults.real.fault_site import Site
from harness.faults.simulated.acts import Act, SimulatedRun
from harness.history.event import Call, Change, In, Res
from harness.history.notes import Found, Line

if TYPE_CHECKING:
    from pymysql.cursors import Cursor

    from harness.database.simulated.hub import Due

_STATEMENT_S = 10.0
_ROWS_OF_A_KEY_MAX: Final = 100
"""The most rows that one key can have (`workload.fanout`)."""
_FIRST_ROWS = "SELECT n, k, part, ver FROM {table} ORDER BY n LIMIT %s FOR UPDATE"
_UPDATE = "UPDATE customer SET ver = %s, tier = tier + 1 WHERE n IN ({rows})"
_KEEP_ROWS = "CREATE TABLE IF NOT EXISTS floodmark_absent LIKE customer"
"""The table that keeps deleted rows until they are inserted again."""
_DELETE = (
    "INSERT INTO floodmark_absent SELECT n, k, part, name, city, tier, %s FROM customer WHERE n IN ({rows})",
    "DELETE FROM customer WHERE n IN ({rows})",
)
_INSERT = (
    "INSERT INTO customer SELECT n, k, part, name, city, tier + 1, %s FROM floodmark_absent WHERE n IN ({rows})",
    "DELETE FROM floodmark_absent WHERE n IN ({rows})",
)
_LASTS_MS: Final = 200
"""How long it lasts at level sim, at most, if the scenario gives no duration."""
_STEP_MS: Final = (1, 6)
"""Simulated time from the begin of a change to its commit, and from there to its acknowledgement."""


class ChangeRows(ServerFault):
    """Changes the rows of the table's first `count` keys."""

    about = (
        "The rows of the first `count` keys of the looked-up table become the next version, in one transaction; "
        "`how: delete`: they are deleted, the next time inserted again, and so on."
    )
    must_show = "The change was committed, and later lookups were made; of ours, some gave the new version, or no rows."

    not_in_jobs = (
        "changes rows of Floodmark's own lookups, and what a job must write comes from its first rows"
    )
    can = ()

    do: Literal["change_rows"]
    count: Count
    how: Annotated[Literal["update", "delete"], Way] = "update"
    lasts: UntilEffective = None

    @property
    def simulated_lasts_ms(self) -> int:
        return self.lasts_ms or _LASTS_MS

    @contextmanager
    def inject(self, site: Site) -> Iterator[None]:
        """Past the proxy, as the harness's own transaction."""
        server = site.server
        with server.root(server.database, limit_s=_STATEMENT_S) as connection, connection.cursor() as cursor:
            cursor.execute("SET SESSION innodb_lock_wait_timeout = 8, lock_wait_timeout = 8")
            if self.how == "delete":
                cursor.execute(_KEEP_ROWS)
            self._change(cursor, site)
        yield

    def _change(self, cursor: Cursor, site: Site) -> None:
        """One transaction; nothing in a table without rows, where the fault has no evidence either."""
        cursor.execute("START TRANSACTION")
        absent = self._first_rows(cursor, "floodmark_absent") if self.how == "delete" else []
        rows = absent or self._first_rows(cursor, "customer")
        if not rows:
            return
        version = 1 + max(row[-1] for row in rows)
        named = dict.fromkeys((k, part) for _, k, part, _ in rows)
        keys = [k if part is None else [k, part] for k, part in named]
        numbers = [row[0] for row in rows]
        places = ", ".join(["%s"] * len(numbers))
        site.note_fact(change="begin", ver=version, keys=keys)
        if self.how == "update":
            cursor.execute(_UPDATE.format(rows=places), (version, *numbers))
        else:
            copy, remove = _INSERT if absent else _DELETE
            cursor.execute(copy.format(rows=places), (version, *numbers))
            cursor.execute(remove.format(rows=places), numbers)
        cursor.execute("COMMIT")
        if site.server.reaches_lookups(site.over):
            site.note_fact(change="end", ver=version, keys=keys)

    def _first_rows(self, cursor: Cursor, table: str) -> list[tuple[int, object, object, int]]:
        """The rows (n, k, part, ver) of the first `count` keys of a table."""
        cursor.execute(_FIRST_ROWS.format(table=table), (self.count * _ROWS_OF_A_KEY_MAX,))
        rows = list(cursor.fetchall())
        keys = dict.fromkeys((k, part) for _, k, part, _ in rows)
        first = dict.fromkeys(islice(keys, self.count))
        return [row for row in rows if row[1:3] in first]

    def evidence(self, seen: Seen) -> Evidence:
        """Answers of the new version or without rows; if no answer has a version, lookups that began after the change.

        No answer has one while the run goes on, because its lines are read afterwards, or with a user's lookup.
        """
        version, keys = seen.last_fact("ver"), seen.last_fact("keys")
        if version is None or seen.last_fact("change") != "end":
            return {}
        told = [line.ver for line in seen.events if isinstance(line, Res) and line.ver is not UNSET]
        counted = {"answers": sum(ver >= version for ver in told)}
        if self.how == "delete":
            counted["without_rows"] = _empty_answers(seen, keys)
        if not told:
            counted = {"lookups_since": len(seen.over("lookups").during())}
        return {"version": version, "keys": len(keys), **counted} if any(counted.values()) else {}

    def simulated(self, run: SimulatedRun) -> Act:
        return _SimulatedChange(run, count=self.count, deletes=self.how == "delete")


def _empty_answers(seen: Seen, keys: Sequence[object]) -> int:
    """How many lookups of these keys that began after the change were answered without rows."""
    of_keys = dict.fromkeys(line.id for line in seen.events if isinstance(line, In) and line.key in keys)
    later = dict.fromkeys(
        (line.a, line.id, line.try_)
        for line in seen.events
        if isinstance(line, Call) and line.t >= seen.armed_us and line.id in of_keys
    )
    return sum(
        line.r == "ok" and line.v == [] and (line.a, line.id, line.try_) in later
        for line in seen.events
        if isinstance(line, Res)
    )


def change_events(lines: Iterable[Line]) -> Iterator[Change]:
    """The `change` events of a history, in the order of the recorded lines of a run."""
    for line in lines:
        match line:
            case Found(t=t, facts={"change": phase, "keys": keys, "ver": version}):
                for key in keys:
                    yield Change(n=0, t=t, phase=phase, ver=version, key=key)


class _SimulatedChange:
    """One transaction of another client of the simulated server. Mutable: goes from its begin to its end."""

    settles_ms = 0

    def __init__(self, run: SimulatedRun, *, count: int, deletes: bool) -> None:
        self._run = run
        self._deletes = deletes
        self._customers = run.server.tables.customers
        self._keys: Sequence[Any] = list(self._customers.by_key)[:count]
        self._version = 0
        self._selected = 0
        self._next: Due | None = None
        self._steps: list[Any] = []

    def begins(self) -> None:
        if not self._keys:
            return  # there are no rows, so there is no evidence either
        self._version = 1 + max(self._customers.versions.get(key, 0) for key in self._keys)
        self._tell("begin")
        self._steps = [self._commit, lambda: self._tell("end")]
        self._wait()

    def _wait(self) -> None:
        hub = self._run.hub
        self._next = hub.at(hub.now_ms + self._run.draw.between(*_STEP_MS), self._step)

    def _step(self) -> None:
        self._next = None
        self._steps.pop(0)()
        if self._steps:
            self._wait()

    def _commit(self) -> None:
        self._customers.change(self._keys, version=self._version, deletes=self._deletes)
        self._selected = -self._customers.selected

    def _tell(self, phase: Literal["begin", "end"]) -> None:
        tape = self._run.tape
        for key in self._keys:
            told = list(key) if isinstance(key, tuple) else key
            tape.add(Change(n=tape.n, t=tape.t, phase=phase, ver=self._version, key=told))

    def ends(self) -> None:
        """What it has not done yet it does now."""
        if self._next is not None:
            self._run.hub.cancel(self._next)
        for step in self._steps:
            step()
        self._steps = []

    def evidence(self) -> Evidence:
        read = self._customers.read_versions
        answers = sum(count for version, count in read.items() if version >= self._version)
        counted = {"answers": answers, "lookups_since": self._selected + self._customers.selected}
        if not self._version or self._steps or not any(counted.values()):
            return {}
        return {"version": self._version, "keys": len(self._keys), **counted}
