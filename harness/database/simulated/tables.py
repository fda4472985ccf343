"""The tables of the simulated server, the transactions on them, the lookup table `customer`, and the locks.

Answers to InnoDB's consistent reads and lock system, and to MariaDB's user-level locks. A transaction
(REPEATABLE READ) reads the snapshot of its first read plus its own writes; locking reads and writes use the
newest committed version. A lock has one holder and a first-in, first-out queue of waiters; all row locks are
exclusive.

Deviations: `seq` of `output`, `audit` and `dead_letter` is assigned at the commit, not at the INSERT, so it
has no gaps and follows the order of commits; reads of these three see the newest commit, not the snapshot. So do
SELECTs of `customer` other than the reference lookup.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Final, Generic, TypeVar

from msgspec import Struct

_MS: Final = 1000
BY_SQLITE: Final = "at level sim the database is SQLite, and --sql real asks a server"
_AWAY: Final = "floodmark_renamed"
_UPDATE: Final = ("UPDATE customer SET ver = :ver, tier = tier + 1 WHERE k = :k AND part IS :part",)
_DELETE: Final = (
    "INSERT INTO absent SELECT * FROM customer WHERE k = :k AND part IS :part",
    "DELETE FROM customer WHERE k = :k AND part IS :part",
)
_INSERT: Final = (
    "INSERT INTO customer SELECT n, k, part, name, city, tier + 1, :ver FROM absent WHERE k = :k AND part IS :part",
    "DELETE FROM absent WHERE k = :k AND part IS :part",
)
"""Of a key whose rows were deleted; the table `absent` keeps them."""


class StatementFailed(Exception):
    """A statement failed: MySQL's error code and message."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(code, message)
        self.code = code
        self.message = message


class Customers:
    """The table `customer`: a dict by key for the reference lookup, SQLite for any other SELECT.

    Both hold the same rows, and both show a renamed column or table (fault `schema_change`) and changed rows (fault
    `change_rows`). Mutable. `rows`: (k, name, city, tier) each; a composite k is a tuple.
    """

    def __init__(self, rows: Iterable[Sequence[object]]) -> None:
        self._rows = [tuple(row) for row in rows]
        self.by_key: dict[Any, list[tuple[Any, ...]]] = {}
        """Key -> (name, city, tier) of each row with that key, in the order of `rows`; empty if they are deleted."""
        for key, *rest in self._rows:
            self.by_key.setdefault(key, []).append(tuple(rest))
        self.versions: dict[Any, int] = {}
        """Key -> version of its rows; those of other keys have never changed."""
        self._deleted: dict[Any, list[tuple[Any, ...]]] = {}
        """Key -> its deleted rows, until they are inserted again."""
        self.changes = 0
        """How many changes were committed."""
        self._before: dict[Any, list[tuple[int, list[tuple[Any, ...]], int]]] = {}
        """Key -> for each change of its rows: its number, and the rows and their version before it."""
        self.never_changes = True
        """Whether no fault of the run changes rows, so that a lookup may be answered before it arrives."""
        self.read_versions: Counter[int] = Counter()
        """How many answers of the reference lookup gave rows, or none, by each version above 0."""
        self.selected = 0
        """How many other SELECTs were executed."""
        self.renamed: str | None = None
        """What is renamed now: `column` (city), `table`, or None."""
        self._connection: sqlite3.Connection | None = None
        self._slept_s = 0.0

    def change(self, keys: Iterable[object], *, version: int, deletes: bool = False) -> None:
        """Makes the rows of `keys` version `version`: each `tier` rises by one.

        `deletes`: rows that are there are deleted, and rows that were deleted are inserted again.
        """
        connection = self._sqlite()
        self.changes += 1
        for key in keys:
            rows = self.by_key[key]
            self._before.setdefault(key, []).append((self.changes, rows, self.versions.get(key, 0)))
            self.versions[key] = version
            statements: tuple[str, ...]
            if deletes and rows:
                self._deleted[key], self.by_key[key] = rows, []
                statements = _DELETE
            else:
                known = self._deleted.pop(key) if deletes else rows
                self.by_key[key] = [(name, city, tier + 1) for name, city, tier in known]
                statements = _INSERT if deletes else _UPDATE
            k, part = _parts_of(key)
            for statement in statements:
                connection.execute(statement, {"ver": version, "k": k, "part": part})

    def read(self, key: object, *, view: int | None) -> tuple[list[tuple[object, ...]] | None, int]:
        """The rows of `key` and their version, after the first `view` changes; None: after all of them."""
        if view is not None and view < self.changes:
            for number, rows, version in self._before.get(key, ()):
                if number > view:
                    return rows, version
        return self.by_key.get(key), self.versions.get(key, 0) if self.versions else 0

    def rename(self, what: str | None) -> None:
        """Renames `column` (city) or `table`; None restores the original name."""
        assert what in (None, "column", "table"), what
        connection = self._sqlite()
        if self.renamed == "table":
            connection.execute(f"ALTER TABLE {_AWAY} RENAME TO customer")
        elif self.renamed == "column":
            connection.execute(f"ALTER TABLE customer RENAME COLUMN {_AWAY} TO city")
        if what == "table":
            connection.execute(f"ALTER TABLE customer RENAME TO {_AWAY}")
        elif what == "column":
            connection.execute(f"ALTER TABLE customer RENAME COLUMN city TO {_AWAY}")
        self.renamed = what

    def refuse_renamed(self) -> None:
        """Raises `StatementFailed` if the reference lookup names a renamed table or column."""
        if self.renamed == "table":
            raise StatementFailed(1146, "Table 'customer' doesn't exist")
        if self.renamed == "column":
            raise StatementFailed(1054, "Unknown column 'c.city' in 'SELECT'")

    def select(self, sql: str, args: Sequence[object] | None) -> tuple[list[tuple[object, ...]], int]:
        """Returns the rows and the statement's SLEEP time in ms. Raises `StatementFailed`."""
        self._slept_s = 0.0
        self.selected += 1
        text = sql.replace("%s", "?").replace("%%", "%") if args is not None else sql
        try:
            rows = self._sqlite().execute(text, tuple(args or ())).fetchall()
        except sqlite3.Error as error:
            codes = {"no such column": 1054, "no such table": 1146}
            code = next((code for words, code in codes.items() if words in str(error)), 1064)
            raise StatementFailed(code, f"{error}: {sql}; {BY_SQLITE}") from error
        return rows, round(self._slept_s * _MS)

    def _sqlite(self) -> sqlite3.Connection:
        """The SQLite connection, opened on first use: most runs need none."""
        if self._connection is None:
            self._connection = connection = sqlite3.connect(":memory:", isolation_level=None)
            connection.create_function("SLEEP", 1, self._sleep)
            connection.create_function("REPEAT", 2, lambda text, times: text * times)
            connection.execute(
                "CREATE TABLE customer (n INTEGER PRIMARY KEY, k INT, part INT, name TEXT, city TEXT, tier INT,"
                " ver INT DEFAULT 0)"
            )
            connection.execute("CREATE INDEX customer_k ON customer (k)")  # as the real table has
            connection.executemany(
                "INSERT INTO customer (k, part, name, city, tier) VALUES (?, ?, ?, ?, ?)",
                [(*_parts_of(key), *rest) for key, *rest in self._rows],
            )
            connection.execute("CREATE TABLE absent AS SELECT * FROM customer WHERE FALSE")
        return self._connection

    def _sleep(self, seconds: float) -> int:
        self._slept_s += float(seconds)
        return 0


def _parts_of(key: object) -> tuple[object, object]:
    """The columns `k` and `part` of a key."""
    return key if isinstance(key, tuple) else (key, None)


_Owner = TypeVar("_Owner", bound=Hashable)
_V = TypeVar("_V")


class Wait(Struct, Generic[_Owner], eq=False):
    """A waiter in a lock's queue. Mutable. `granted` is called once, when `owner` gets the lock."""

    owner: _Owner
    key: Hashable
    granted: Callable[[], None]


class Locks(Generic[_Owner]):
    """Exclusive locks by key, each with one holder and a queue of waiters. Mutable."""

    def __init__(self) -> None:
        self._holders: dict[Hashable, _Owner] = {}
        self._queues: dict[Hashable, list[Wait[_Owner]]] = {}
        self._held: dict[_Owner, dict[Hashable, None]] = {}
        self.waits: dict[_Owner, Wait[_Owner]] = {}
        """The wait of each waiting owner, who waits for one lock at a time."""

    def holder(self, key: Hashable) -> _Owner | None:
        return self._holders.get(key)

    def held_by(self, owner: _Owner) -> int:
        """The number of locks that `owner` holds."""
        return len(self._held.get(owner, ()))

    def take(self, owner: _Owner, key: Hashable) -> bool:
        """Takes the lock if it is free; returns whether `owner` holds it, from now on or from before."""
        if key in self._holders:
            return self._holders[key] is owner
        self._holders[key] = owner
        if owner in self._held:
            self._held[owner][key] = None
        else:
            self._held[owner] = {key: None}
        return True

    def wait(self, owner: _Owner, key: Hashable, granted: Callable[[], None]) -> None:
        """Adds `owner` to the queue of a lock that another owner holds."""
        wait = self.waits[owner] = Wait(owner, key, granted)
        self._queues.setdefault(key, []).append(wait)

    def leave(self, owner: _Owner) -> None:
        """Removes `owner` from the queue it waits in, if any."""
        wait = self.waits.pop(owner, None)
        if wait is not None:
            self._queues[wait.key].remove(wait)

    def blockers(self, owner: _Owner) -> list[_Owner]:
        """The owners that `owner` waits for: the holder, and the waiters ahead in the queue."""
        wait = self.waits.get(owner)
        if wait is None:
            return []
        queue = self._queues[wait.key]
        return [self._holders[wait.key], *(one.owner for one in queue[: queue.index(wait)])]

    def release(self, owner: _Owner, key: Hashable) -> None:
        """Passes one lock to the next waiter. Calls its `granted` immediately, so that must be short."""
        del self._holders[key]
        del self._held[owner][key]
        if key in self._queues and (queue := self._queues[key]):
            wait = queue.pop(0)
            del self.waits[wait.owner]
            self.take(wait.owner, key)
            wait.granted()

    def release_all(self, owner: _Owner) -> None:
        """Removes `owner` from its queue and releases all its locks."""
        if owner in self.waits:
            self.leave(owner)
        if owner in self._held:
            for key in list(self._held[owner]):
                self.release(owner, key)
            del self._held[owner]


def cycle(locks: Locks[_Owner], start: _Owner) -> list[_Owner]:
    """A deadlock cycle through `start`, as owners beginning with `start`; empty: there is none."""
    path: list[_Owner] = []
    seen: dict[_Owner, None] = {}

    def leads_back(owner: _Owner) -> bool:
        path.append(owner)
        for blocker in locks.blockers(owner):
            if blocker is start:
                return True
            if blocker not in seen:
                seen[blocker] = None
                if leads_back(blocker):
                    return True
        path.pop()
        return False

    return path if leads_back(start) else []


Row = tuple[Any, ...]


class OutputRow(Struct, frozen=True):
    """A row of `output` or of `audit`. `v` is the JSON text that was inserted."""

    seq: int
    subtask: int
    id: int
    j: int
    v: str
    epoch: int
    token: int


class StoredDeadLetter(Struct, frozen=True):
    """A row of `dead_letter`."""

    seq: int
    subtask: int
    id: int
    error: str
    epoch: int
    token: int


class Effects(Struct, frozen=True):
    """The rows that a commit makes visible, in each list in the order of writing."""

    outputs: list[OutputRow]
    dead_letters: list[StoredDeadLetter]
    epochs: list[tuple[int, int, int]] = []
    """(subtask, epoch, token)."""
    completed: list[int] = []
    fences: list[tuple[int, int, int | None, int]] = []
    """(subtask, token, origin_ms, ended)."""
    acks: list[tuple[int, int, int, str]] = []
    """(subtask, epoch, token, file)."""


class SimulatedTable:
    """All committed versions of each row, by primary key. Mutable."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.changed = 0
        """The number of the last commit that changed the table."""
        self.versions: dict[Any, list[tuple[int, Row | None]]] = {}
        """Key -> (commit, row) of each version, the oldest first; row None: it was deleted."""
        self._memo: dict[Hashable, tuple[int, Any]] = {}

    def put(self, key: object, row: Row | None, *, commit: int) -> None:
        """Adds a version of a row; None: the row is deleted."""
        self.changed = commit
        if key in self.versions:
            self.versions[key].append((commit, row))
        else:
            self.versions[key] = [(commit, row)]

    def newest(self, key: object) -> Row | None:
        """The newest committed version of the row, or None."""
        return self.versions[key][-1][1] if key in self.versions else None

    def at(self, key: object, view: int) -> Row | None:
        """The row in the snapshot of commit number `view`, or None."""
        if key in self.versions:
            for commit, row in reversed(self.versions[key]):
                if commit <= view:
                    return row
        return None

    def committed(self) -> list[Any]:
        """The keys of all rows that exist now, in the order of their first commit."""
        return [key for key, versions in self.versions.items() if versions[-1][1] is not None]

    def sorted_keys(self) -> list[object]:
        """The sorted keys of all rows, deleted ones included."""
        return sorted(self.versions)

    def remembered(self, what: Hashable, make: Callable[[], _V]) -> _V:
        """`make()`, cached under `what` until the table changes."""
        memo = self._memo.get(what)
        if memo is None or memo[0] != self.changed:
            memo = self._memo[what] = (self.changed, make())
        found: _V = memo[1]
        return found


OutputChange = Callable[[OutputRow], OutputRow | None]
"""The row that an UPDATE or a DELETE leaves of a row; None: it is deleted."""


class SimulatedTables:
    """The tables of one run. Mutable.

    `keyed`: `output` has a unique key (subtask, id, j), `dead_letter` one of (subtask, id); with `by_record` both are
    without the subtask.
    """

    def __init__(
        self, *, subtasks: int, customers: Customers, keyed: bool = False, by_record: bool = False
    ) -> None:
        self._key_from = 1 if by_record else 0
        self.commits = 0
        self.customers = customers
        self.keyed = keyed
        self.fence = SimulatedTable("fence")
        """subtask -> (token, origin_ms, ended)."""
        self.epoch = SimulatedTable("epoch")
        """(subtask, epoch) -> (token, pos, elements)."""
        self.ack = SimulatedTable("ack")
        """(subtask, epoch) -> (token, file)."""
        self.completed = SimulatedTable("completed")
        """epoch -> ()."""
        self.output: list[OutputRow] = []
        self.audit: list[OutputRow] = []
        """The rows as they were inserted: the trigger copies each row of `output`, and no DELETE or UPDATE."""
        self.dead_letter: list[StoredDeadLetter] = []
        self._letters = 0
        """The number of letters that were committed; the DELETEs take none of them away."""
        self.output_keys: dict[tuple[Any, ...], None] = {}
        """The unique keys of `output`; filled only if `keyed`."""
        self.letter_keys: dict[tuple[Any, ...], None] = {}
        """The unique keys of `dead_letter`; filled only if `keyed`."""
        self.unreadable: dict[str, None] = {}
        """The tables that cannot be read: a hand renamed them (`harness.database.simulated.table_hand`)."""
        for subtask in range(subtasks):
            self.fence.put(subtask, (0, None, 0), commit=0)

    def output_key(self, row: Sequence[object]) -> tuple[object, ...]:
        """The unique key of a row of `output`, given without `seq`."""
        return tuple(row[self._key_from : 3])

    def letter_key(self, row: Sequence[object]) -> tuple[object, ...]:
        """The unique key of a row of `dead_letter`, given without `seq`."""
        return tuple(row[self._key_from : 2])

    def duplicate(self, key: tuple[object, ...]) -> str:
        """The server's words for a second row with that key."""
        return (
            f"Duplicate entry '{'-'.join(map(str, key))}' for key '{'id' if self._key_from else 'subtask'}'"
        )

    def publish(self, transaction: Transaction) -> Effects:
        """Commits: makes all writes of `transaction` visible at one instant."""
        self.commits = commit = self.commits + 1
        for change in transaction.output_changes:
            changed = [(before, change(before)) for before in self.output]
            self.output = [after for _, after in changed if after is not None]
            for before, after in changed:
                if after is None:
                    self.output_keys.pop(self.output_key((before.subtask, before.id, before.j)), None)
        outputs = [OutputRow(len(self.audit) + n, *row) for n, row in enumerate(transaction.outputs, start=1)]
        self.output += outputs
        self.audit += outputs
        if transaction.letters_before is not None:
            subtask, token = transaction.letters_before
            goes = [one for one in self.dead_letter if one.subtask == subtask and one.token < token]
            for one in goes:
                self.letter_keys.pop(self.letter_key((one.subtask, one.id)), None)
            self.dead_letter = [one for one in self.dead_letter if one not in goes]
        dead = [
            StoredDeadLetter(self._letters + n, *row)
            for n, row in enumerate(transaction.dead_letters, start=1)
        ]
        self._letters += len(dead)
        self.dead_letter += dead
        if self.keyed:
            for output in outputs:
                self.output_keys[self.output_key((output.subtask, output.id, output.j))] = None
            for letter in dead:
                self.letter_keys[self.letter_key((letter.subtask, letter.id))] = None
        effects = Effects(outputs, dead)
        for table, rows in transaction.pending.items():
            for key, row in rows.items():
                table.put(key, row, commit=commit)
                if row is not None:
                    self._note(effects, table, key, row)
        return effects

    def _note(self, effects: Effects, table: SimulatedTable, key: Any, row: Row) -> None:
        if table is self.epoch:
            effects.epochs.append((*key, row[0]))
        elif table is self.completed:
            effects.completed.append(key)
        elif table is self.fence:
            effects.fences.append((key, *row))
        else:
            effects.acks.append((*key, *row))


class Transaction(Struct, eq=False):
    """The snapshot and the uncommitted writes of one transaction, private until `SimulatedTables.publish`. Mutable."""

    tables: SimulatedTables
    snapshot: int | None = None
    """The commit number that its consistent reads see, fixed by the first one."""
    changes_known: int | None = None
    is_explicit: bool = False
    """Whether BEGIN started it: it then stays open after a statement, also in autocommit."""
    pending: dict[SimulatedTable, dict[Any, Row | None]] = {}
    outputs: list[Row] = []
    output_keys: dict[Row, None] = {}
    output_changes: list[OutputChange] = []
    """The UPDATEs and DELETEs of committed rows of `output`, in their order."""
    dead_letters: list[Row] = []
    letter_keys: dict[Row, None] = {}
    letters_before: tuple[int, int] | None = None
    """(subtask, token): the letters of this subtask with a lower token are deleted; None: none are."""
    changes: int = 0
    """Number of row writes: its weight when a deadlock victim is chosen (the lightest)."""

    def changes_seen(self) -> int:
        """How many changes of `customer` its lookups see, fixed by its first one."""
        if self.changes_known is None:
            self.changes_known = self.tables.customers.changes
        return self.changes_known

    def read(self, table: SimulatedTable, key: object) -> Row | None:
        """A consistent read of one row."""
        if self.snapshot is None:
            self.snapshot = self.tables.commits
        if table in self.pending and key in self.pending[table]:
            return self.pending[table][key]
        return table.at(key, self.snapshot)

    def read_newest(self, table: SimulatedTable, key: object) -> Row | None:
        """A locking read of one row; the caller holds the lock."""
        if table in self.pending and key in self.pending[table]:
            return self.pending[table][key]
        return table.newest(key)

    def scan(self, table: SimulatedTable) -> list[tuple[Any, Row]]:
        """A consistent read of all rows, sorted by key."""
        if self.snapshot is None:
            self.snapshot = self.tables.commits
        own = self.pending.get(table, {})
        found: list[tuple[Any, Row]] = []
        for key in sorted({**table.versions, **own}):
            row = own[key] if key in own else table.at(key, self.snapshot)
            if row is not None:
                found.append((key, row))
        return found

    def reads_newest(self, table: SimulatedTable) -> bool:
        """Whether its consistent reads of `table` see exactly the newest committed rows."""
        if self.snapshot is None:
            self.snapshot = self.tables.commits
        return table.changed <= self.snapshot and table not in self.pending

    def write(self, table: SimulatedTable, key: object, row: Row | None) -> None:
        """Writes a row, or deletes it (None); the caller holds the lock."""
        self.changes += 1
        if table in self.pending:
            self.pending[table][key] = row
        else:
            self.pending[table] = {key: row}

    def has_output(self, key: Sequence[object]) -> bool:
        """Whether a row of `output` with this unique key exists, committed or written here."""
        return tuple(key) in self.output_keys or tuple(key) in self.tables.output_keys

    def has_dead_letter(self, key: Sequence[object]) -> bool:
        """Whether a row of `dead_letter` with this unique key exists, committed or written here."""
        return tuple(key) in self.letter_keys or tuple(key) in self.tables.letter_keys

    def read_outputs(self) -> list[OutputRow]:
        """The rows of `output`: all committed ones, then its own."""
        return self._with_own(self.tables.output)

    def read_audit(self) -> list[OutputRow]:
        """The rows of `audit`: all committed ones, then those of its own outputs."""
        return self._with_own(self.tables.audit)

    def read_dead_letters(self) -> list[StoredDeadLetter]:
        """The rows of `dead_letter`: all committed ones, then its own."""
        committed = self.tables.dead_letter
        if not self.dead_letters:
            return committed
        return committed + [
            StoredDeadLetter(len(committed) + n, *row) for n, row in enumerate(self.dead_letters, start=1)
        ]

    def _with_own(self, committed: list[OutputRow]) -> list[OutputRow]:
        if not self.outputs:
            return committed
        return committed + [
            OutputRow(len(committed) + n, *row) for n, row in enumerate(self.outputs, start=1)
        ]

    def write_output(self, row: Sequence[object]) -> None:
        """Inserts a row of `output`, without `seq`."""
        self.changes += 2  # the row of `output` and its copy in `audit`
        self.outputs.append(tuple(row))
        if self.tables.keyed:
            self.output_keys[self.tables.output_key(row)] = None

    def change_outputs(self, change: OutputChange) -> None:
        """Updates or deletes rows of `output` when the transaction commits."""
        self.changes += 1
        self.output_changes.append(change)

    def write_dead_letter(self, row: Sequence[object]) -> None:
        """Inserts a row of `dead_letter`, without `seq`."""
        self.changes += 1
        self.dead_letters.append(tuple(row))
        if self.tables.keyed:
            self.letter_keys[self.tables.letter_key(row)] = None


class Branch(Struct, eq=False):
    """An XA transaction. Mutable: its state is ACTIVE, IDLE, PREPARED or ROLLBACK ONLY."""

    xid: tuple[str, str]
    transaction: Transaction
    state: str = "ACTIVE"
    owner: object | None = None
    """The session that began it. None: that session has ended, and any session may end the branch."""
