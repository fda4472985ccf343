"""What the records of a run with a user's lookup must yield, as known before the run, and where it is known from.

Answers to the model against which Jepsen checks a register. Invariant: `None` as the results of a record means that
nobody knows them, never that there are none. An attempt, the header and the cross-checks use the same value.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import msgspec

from harness.scenario.outcome import Pitfall


class Expected(msgspec.Struct, frozen=True, kw_only=True):
    """The results to expect; a part of the run's plan."""

    source: Literal["given", "calm", "none"]
    """The header's `expect_from`."""
    by_key: bool = False
    """Whether records of one key yield the same: the function uses nothing of a record but its key."""
    of_keys: list[tuple[Any, list[Any]]] = []
    """Pairs of a key, as JSON, and what its records yield."""
    of_records: list[tuple[int, list[Any]]] = []
    """Pairs of a record's id and what it yields, where the key does not decide it."""

    def known(self) -> Callable[[Any, Any], list[Any] | None]:
        """A function (id, key) -> the results of that record, or None."""
        of_keys = {_hashable(key): results for key, results in self.of_keys}
        of_records = dict(self.of_records)

        def results(record: Any, key: object) -> list[Any] | None:
            found = of_records.get(record)
            return of_keys.get(_hashable(key)) if found is None else found

        return results


def _hashable(key: object) -> Any:
    return tuple(key) if isinstance(key, list) else key


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedValues:
    """How the expected results were found, for the report."""

    says: str
    """Where they are from, and for how many keys, in one sentence."""
    took_s: float = 0.0
    """How long it took to find them."""
    calls: int = 0
    """Calls of the user's function for it."""
    threats: tuple[str, ...] = ()
    """Why some records have no expected results, a sentence each."""
    pitfalls: tuple[Pitfall, ...] = ()
    rows_of: tuple[Any, ...] = ()
    """The keys that a fault changes, and whose calm answers are the rows of before."""
