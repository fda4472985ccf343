"""The tables of the simulated server, and transactions on them.

Answers to InnoDB's consistent reads: a row keeps its versions, and a transaction (REPEATABLE READ) reads those that
were committed when it read first, and its own writes. A locking read and a write go by the newest committed version.

Deviations: `seq` of `output`, `audit` and `dead_letter` is given at the commit, not at the INSERT, so it has no gaps
and its order is that of the commits; reads of these three see what is committed now, and no snapshot.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any

from msgspec import Struct

from harness.levels.sim.customers import Customers

__all__ = ["DeadLetterRow", "Effects", "OutputRow", "Row", "Table", "Tables", "Transaction"]

Row = tuple[Any, ...]


class OutputRow(Struct, frozen=True):
    """A row of `output`, and of `audit`. `v` is JSON text, as it was sent."""

    seq: int
    subtask: int
    id: int
    j: int
    v: str
    epoch: int
    token: int


class DeadLetterRow(Struct, frozen=True):
    """A row of `dead_letter`."""

    seq: int
    subtask: int
    id: int
    error: str
    epoch: int
    token: int


class Effects(Struct, frozen=True):
    """What a commit makes visible, each in the order in which it was written."""

    outputs: list[OutputRow]
    dead_letters: list[DeadLetterRow]
    epochs: list[tuple[int, int, int]]
    """(subtask, epoch, token)."""
    completed: list[int]
    fences: list[tuple[int, int, int | None, int]]
    """(subtask, token, origin_ms, ended)."""
    acks: list[tuple[int, int, int, str]]
    """(subtask, epoch, token, file)."""


class Table:
    """Rows by their primary key, each with its versions. Mutable."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.changed = 0
        """The number of the commit that changed it last."""
        self._versions: dict[Any, list[tuple[int, Row | None]]] = {}
        self._memo: dict[Hashable, tuple[int, Any]] = {}

    def put(self, key: Any, row: Row | None, *, commit: int) -> None:
        """A new version; None: the row is deleted."""
        self.changed = commit
        self._versions.setdefault(key, []).append((commit, row))

    def newest(self, key: Any) -> Row | None:
        """The row as it is committed now."""
        versions = self._versions.get(key)
        return versions[-1][1] if versions else None

    def at(self, key: Any, view: int) -> Row | None:
        """The row as it was when commit number `view` was the newest."""
        for commit, row in reversed(self._versions.get(key, ())):
            if commit <= view:
                return row
        return None

    def committed(self) -> list[Any]:
        """The keys of the rows that there are now, the oldest first."""
        return [key for key, versions in self._versions.items() if versions[-1][1] is not None]

    def sorted_keys(self) -> list[Any]:
        """The keys of all rows that there ever were."""
        return sorted(self._versions)

    def remembered(self, what: Hashable, make: Callable[[], Any]) -> Any:
        """What `make` gave since the table changed last."""
        memo = self._memo.get(what)
        if memo is None or memo[0] != self.changed:
            memo = self._memo[what] = (self.changed, make())
        return memo[1]


class Tables:
    """Those of one run. Mutable. `keyed`: the table `output` has a unique key (subtask, id, j)."""

    def __init__(self, *, subtasks: int, customers: Customers, keyed: bool = False) -> None:
        self.commits = 0
        self.customers = customers
        self.keyed = keyed
        self.fence = Table("fence")
        """subtask -> (token, origin_ms, ended)."""
        self.epoch = Table("epoch")
        """(subtask, epoch) -> (token, pos, elements)."""
        self.ack = Table("ack")
        """(subtask, epoch) -> (token, file)."""
        self.completed = Table("completed")
        """epoch -> ()."""
        self.output: list[OutputRow] = []
        """Also the rows of `audit`: its trigger writes the same."""
        self.dead_letter: list[DeadLetterRow] = []
        self.output_keys: dict[tuple[int, int, int], None] = {}
        """Where `keyed`."""
        for subtask in range(subtasks):
            self.fence.put(subtask, (0, None, 0), commit=0)

    def fence_of(self, subtask: int) -> tuple[int, int | None, int]:
        """(token, origin_ms, ended), as committed now."""
        row = self.fence.newest(subtask)
        assert row is not None, f"the run has no subtask {subtask}"
        token, origin_ms, ended = row
        return token, origin_ms, ended

    def publish(self, transaction: Transaction) -> Effects:
        """Make what it wrote visible, at one instant."""
        self.commits = commit = self.commits + 1
        for table, rows in transaction.pending.items():
            for key, row in rows.items():
                table.put(key, row, commit=commit)
        outputs = [
            OutputRow(len(self.output) + n, *row) for n, row in enumerate(transaction.outputs, start=1)
        ]
        self.output += outputs
        if self.keyed:
            for output in outputs:
                self.output_keys[output.subtask, output.id, output.j] = None
        dead = [
            DeadLetterRow(len(self.dead_letter) + n, *row)
            for n, row in enumerate(transaction.dead_letters, start=1)
        ]
        self.dead_letter += dead
        return Effects(
            outputs=outputs,
            dead_letters=dead,
            epochs=[(*key, row[0]) for key, row in transaction.written(self.epoch)],
            completed=[key for key, _ in transaction.written(self.completed)],
            fences=[(key, *row) for key, row in transaction.written(self.fence)],
            acks=[(*key, *row) for key, row in transaction.written(self.ack)],
        )


class Transaction:
    """What one transaction wrote, and what it reads. Mutable. Rows stay private until `Tables.publish`."""

    def __init__(self, tables: Tables) -> None:
        self._tables = tables
        self._view: int | None = None
        self.is_explicit = False
        """BEGIN began it, so it outlasts its statements also in autocommit."""
        self.pending: dict[Table, dict[Any, Row | None]] = {}
        self.outputs: list[Row] = []
        self.output_keys: dict[Row, None] = {}
        self.dead_letters: list[Row] = []
        self.changes = 0
        """Rows written, also twice: what makes it heavy when a victim of a deadlock is chosen."""

    @property
    def wrote(self) -> bool:
        """Whether a commit has something to publish."""
        return bool(self.changes)

    def written(self, table: Table) -> Iterator[tuple[Any, Row]]:
        """Its rows that are not deleted, with their keys."""
        for key, row in self.pending.get(table, {}).items():
            if row is not None:
                yield key, row

    def view(self) -> int:
        """The commit that its consistent reads go by; fixed by the first of them."""
        if self._view is None:
            self._view = self._tables.commits
        return self._view

    def read(self, table: Table, key: Any) -> Row | None:
        """A consistent read of one row."""
        view = self.view()
        own = self.pending.get(table)
        if own is not None and key in own:
            return own[key]
        return table.at(key, view)

    def read_newest(self, table: Table, key: Any) -> Row | None:
        """A locking read of one row; the lock is the caller's."""
        own = self.pending.get(table)
        if own is not None and key in own:
            return own[key]
        return table.newest(key)

    def scan(self, table: Table) -> list[tuple[Any, Row]]:
        """A consistent read of all rows, sorted by their keys."""
        view = self.view()
        own = self.pending.get(table, {})
        keys = sorted({**dict.fromkeys(table.sorted_keys()), **dict.fromkeys(own)})
        rows = [(key, own[key] if key in own else table.at(key, view)) for key in keys]
        return [(key, row) for key, row in rows if row is not None]

    def reads_newest(self, *tables: Table) -> bool:
        """Whether consistent reads of `tables` see what anybody would see now."""
        view = self.view()
        return all(table.changed <= view and table not in self.pending for table in tables)

    def write(self, table: Table, key: Any, row: Row | None) -> None:
        """A row, or None for no row; the lock is the caller's."""
        self.changes += 1
        self.pending.setdefault(table, {})[key] = row

    def has_output(self, key: Sequence[Any]) -> bool:
        """Whether the keyed table has this row already."""
        return tuple(key) in self.output_keys or tuple(key) in self._tables.output_keys

    def read_outputs(self) -> list[OutputRow]:
        """The rows of `output`, and of `audit`: what is committed now, and its own."""
        committed = self._tables.output
        if not self.outputs:
            return committed
        return committed + [
            OutputRow(len(committed) + n, *row) for n, row in enumerate(self.outputs, start=1)
        ]

    def write_output(self, row: Sequence[Any]) -> None:
        """A row of `output` without its seq."""
        self.changes += 2  # the audit's as well
        self.outputs.append(tuple(row))
        if self._tables.keyed:
            self.output_keys[tuple(row[:3])] = None

    def write_dead_letter(self, row: Sequence[Any]) -> None:
        """A row of `dead_letter` without its seq."""
        self.changes += 1
        self.dead_letters.append(tuple(row))
