"""What plain SQL shows of a run's output table, compared with what the sources sent, apart from every checker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import pymysql

from harness.database.endpoint import Endpoint
from harness.scenario.model import Scenario
from harness.scenario.workloads.lookups import (
    Lookup,
    LookupSource,
    changing_keys,
    customer_rows,
    records_of_all,
)
from harness.scenario.workloads.shape import key_of, keys_of

_Row = tuple[int, int, int]
"""Subtask, id, and the number of the output among those of its record."""


@dataclass(kw_only=True)
class TableSeen:
    """What plain SQL shows of a run's output table, read just before it is dropped. Mutable: filled by `read`."""

    scenario: Scenario
    seed: int
    lost: int = 0
    """Records whose key has a row all the time, and of which there is neither an output nor a dead letter."""
    doubled: int = 0
    reordered: int = 0
    """Counted where the operator keeps an order that the table shows: all records, or those of a key."""
    foreign: int = 0
    """Outputs of records that no source sent."""
    rows: int = 0

    @property
    def is_exact(self) -> bool:
        return not (self.lost or self.doubled or self.reordered or self.foreign)

    def read(self, root: Endpoint) -> None:
        """Compares the table with what the sources sent."""
        with (
            pymysql.connect(
                host=root.host, port=root.port, user=root.user, password=root.password, database=root.database
            ) as connection,
            connection.cursor() as cursor,
        ):
            cursor.execute("SELECT subtask, id, j FROM output ORDER BY seq")
            found: list[_Row] = list(cursor.fetchall())
            cursor.execute("SELECT id FROM dead_letter")
            dead = [id_ for (id_,) in cursor.fetchall()]
        self.compare(found, dead)

    def compare(self, found: Sequence[_Row], dead: Iterable[int]) -> None:
        """`found`: the output table's rows in the order in which they were written; `dead`: ids of dead letters."""
        resolved = {id_ for _, id_, _ in found} | set(dead)
        self.rows += len(found)
        self.lost += sum(lookup.id not in resolved for lookup in self._sent.values() if self._has_row(lookup))
        self.foreign += sum(id_ not in self._sent for _, id_, _ in found)
        self.doubled += sum(times - 1 for times in Counter((id_, j) for _, id_, j in found).values())
        self.reordered += self._reordered(found)

    def _reordered(self, found: Sequence[_Row]) -> int:
        scenario = self.scenario
        if scenario.task is not None or scenario.rescales or scenario.operator.mode == "unordered":
            return 0  # records leave windows, change their subtask, or overtake each other
        by_key = scenario.operator.mode == "keyed"
        places = {id_: place for place, id_ in enumerate(self._sent)}
        lanes: dict[Any, list[tuple[int, int]]] = {}
        for subtask, id_, j in found:
            if id_ in places:
                lane = (subtask, self._sent[id_].key if by_key else None)
                lanes.setdefault(lane, []).append((places[id_], j))
        return sum(later <= earlier for one in lanes.values() for earlier, later in pairwise(one))

    @cached_property
    def _sent(self) -> dict[int | str, Lookup]:
        """All records by id, those of one subtask in their order."""
        return {lookup.id: lookup for lookup in self._lookups()}

    def _lookups(self) -> Iterator[Lookup]:
        scenario = self.scenario
        workload = scenario.workload
        if scenario.rescales:
            yield from (lookup for lookup, _ in records_of_all(workload, seed=self.seed))
            return
        own = scenario.own_records
        for subtask in range(workload.subtasks):
            source = LookupSource(
                workload=workload, seed=self.seed, subtask=subtask, faults=scenario.faults, own=own
            )
            elements = (source[position] for position in range(len(source)))
            yield from (element[0] for element in elements if isinstance(element, tuple))

    def _has_row(self, lookup: Lookup) -> bool:
        return self._steady_keys is None or lookup.key in self._steady_keys

    @cached_property
    def _steady_keys(self) -> set[Any] | None:
        """The keys whose rows are there from the beginning to the end; None: of tables of the user's own, all."""
        scenario = self.scenario
        if scenario.own_schema is not None:
            return None
        workload = scenario.workload
        rows = customer_rows(
            keys=keys_of(workload), seed=self.seed, fanout=workload.fanout, like=workload.rows_like
        )
        return {key_of(row[0]) for row in rows} - set(changing_keys(scenario, rows))
