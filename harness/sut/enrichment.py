"""Enrichment: the lookup as the operator calls it, each result with the record that it belongs to.

Invariant: a result knows its record and its place all the way to the sink, so a result that is emitted
under another record, twice, or not at all can be told from the rows alone.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

from harness.database.pool import ConnectionPool
from harness.history.journal import Journal
from harness.sut.crash import Crashes
from harness.sut.registry import LookupFunction
from harness.workloads.lookups import Lookup
from reference_impl.elements import Record
from reference_impl.probe import Ending

__all__ = ["Enriched", "JournalProbe", "answer_timeouts", "enrich"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Enriched:
    """The `j`-th result of record `id`."""

    id: int
    j: int
    value: Any


def enrich(
    function: LookupFunction, pool: ConnectionPool
) -> Callable[[Lookup], Coroutine[Any, Any, list[Enriched]]]:
    """`function` as the operator wants it: a list for every record; None is no result, a value is one."""

    async def call(lookup: Lookup) -> list[Enriched]:
        return _enriched(lookup, _as_list(await function(lookup, pool)))

    return call


def _as_list(answer: Any) -> list[Any]:
    if answer is None:
        return []
    return list(answer) if isinstance(answer, list | tuple) else [answer]


def _enriched(lookup: Lookup, values: Sequence[Any]) -> list[Enriched]:
    return [Enriched(id=lookup.id, j=j, value=value) for j, value in enumerate(values)]


def answer_timeouts(values: Sequence[Any]) -> Callable[[Lookup], list[Enriched]]:
    """What stands in for the results of a record that timed out (A45)."""
    return lambda lookup: _enriched(lookup, values)


class JournalProbe:
    """The operator's probe: journals calls and outcomes, and is where a call may be an attempt's last."""

    def __init__(self, journal: Journal, crashes: Crashes) -> None:
        self._journal = journal
        self._crashes = crashes

    def called(self, record: Record, *, attempt: int) -> None:
        """See `reference_impl.probe.Probe`."""
        self._journal.called(id=record.value.id, attempt=attempt)
        self._crashes.reach("call")

    def settled(
        self,
        record: Record,
        *,
        attempt: int,
        ending: Ending,
        final: bool,
        results: Sequence[Enriched] | None = None,
        error: BaseException | None = None,
    ) -> None:
        """See `reference_impl.probe.Probe`."""
        self._journal.settled(
            id=record.value.id,
            attempt=attempt,
            ending=ending.value,
            final=final,
            values=None if results is None else [result.value for result in results],
            error=None if error is None else f"{type(error).__name__}: {error}",
        )
