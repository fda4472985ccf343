"""Enrichment: the lookup as the operator calls it, each result with the record that it belongs to.

Invariant: a result knows its record and its place all the way to the sink, so a result that is emitted
under another record, twice, or not at all can be told from the rows alone.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

import msgspec

from harness.sut.registry import LookupFunction
from harness.workloads.lookups import Lookup
from reference_impl.elements import Record
from reference_impl.probe import Ending

__all__ = ["CallJournal", "Enriched", "JournalProbe", "Phases", "answer_timeouts", "enrich"]


class Enriched(msgspec.Struct, frozen=True, kw_only=True):
    """The `j`-th result of record `id`."""

    id: int
    j: int
    value: Any


def enrich(function: LookupFunction, pool: object) -> Callable[[Lookup], Coroutine[Any, Any, list[Enriched]]]:
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


class CallJournal(Protocol):
    """Where calls and outcomes are written: to a file at levels live and spark, to memory at sim."""

    def called(self, *, id: int, attempt: int) -> None:
        """A call begins."""

    def settled(
        self,
        *,
        id: int,
        attempt: int,
        ending: str,
        final: bool,
        values: Sequence[Any] | None,
        error: str | None,
    ) -> None:
        """An outcome was accepted."""


class Phases(Protocol):
    """Who wants to know where an attempt is, to end it there."""

    def reach(self, phase: str) -> None:
        """The attempt is at `phase`; this may not return."""


class JournalProbe:
    """The operator's probe: journals calls and outcomes, and is where a call may be an attempt's last."""

    def __init__(self, journal: CallJournal, crashes: Phases) -> None:
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
            values=None if results is None else _values(results),
            error=None if error is None else f"{type(error).__name__}: {error}",
        )
        self._crashes.reach("result")


def _values(results: Sequence[Enriched]) -> list[Any]:
    if len(results) == 1:  # nearly always, and a comprehension costs as much as all the rest
        return [results[0].value]
    return [result.value for result in results]
