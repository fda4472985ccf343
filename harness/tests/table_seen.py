"""What plain SQL shows of a run's output table, compared with what the sources sent, apart from every checker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import pymysql

from harness.database.endpoint import Endpoint
from harness.scenario.model import Scenario
from harness.workloads.lookups import LookupSource

__all__ = ["TableSeen"]


@dataclass(slots=True, kw_only=True)
class TableSeen:
    """What plain SQL shows of a run's output table, read just before it is dropped. Mutable: filled by `read`."""

    scenario: Scenario
    seed: int
    lost: int = 0
    doubled: int = 0
    reordered: int = 0
    rows: int = 0

    def read(self, root: Endpoint) -> None:
        """Compares the table with what the sources sent, subtask by subtask."""
        with (
            pymysql.connect(
                host=root.host, port=root.port, user=root.user, password=root.password, database=root.database
            ) as connection,
            connection.cursor() as cursor,
        ):
            for subtask in range(self.scenario.workload.subtasks):
                cursor.execute("SELECT id FROM output WHERE subtask = %s ORDER BY seq", (subtask,))
                self._compare([id_ for (id_,) in cursor.fetchall()], self._asked(subtask))

    def _asked(self, subtask: int) -> list[int | str]:
        source = LookupSource(workload=self.scenario.workload, seed=self.seed, subtask=subtask)
        elements = (source[position] for position in range(len(source)))
        return [element[0].id for element in elements if isinstance(element, tuple)]

    def _compare(self, found: Sequence[int | str], asked: Sequence[int | str]) -> None:
        counts = Counter(found)
        self.rows += len(found)
        self.lost += sum(1 for id_ in asked if not counts[id_])
        self.doubled += sum(times - 1 for times in counts.values())
        place = {id_: number for number, id_ in enumerate(asked)}
        places = [place.get(id_, -1) for id_ in found]
        self.reordered += sum(later <= earlier for earlier, later in pairwise(places))
