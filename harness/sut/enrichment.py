"""Enrichment: wraps the lookup for the operator, and tags each result with its record.

Invariant: a result carries its record's id and its index up to the sink, so the rows alone show a result that was
emitted for a wrong record, twice, or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import msgspec

from harness.history.causes import cause_of
from harness.history.journal import Journal
from harness.scenario.workloads.shape import Lookup, StampedLookup
from harness.sut.dead_letter import DeadLetter
from harness.sut.lookup_values import as_list
from harness.sut.phases import Phases
from harness.sut.registry import LookupFunction
from reference_impl.elements import Record
from reference_impl.operator.probe import Ending


class Enriched(msgspec.Struct, frozen=True, kw_only=True):
    """The `j`-th result of record `id`."""

    id: int
    j: int
    value: Any


def enrich(function: LookupFunction, pool: object) -> Callable[[Lookup], Coroutine[Any, Any, list[Enriched]]]:
    """Wraps `function` to return a list of results; None becomes no result, a single value one result."""

    async def call(lookup: Lookup) -> list[Enriched]:
        return _enriched(lookup, stamped(lookup, as_list(await function(lookup, pool))))

    return call


def stamped(lookup: Lookup, values: list[Any]) -> list[Any]:
    """`values` with the stamp of the keyed operator in front of the lookup, if there is one."""
    if not isinstance(lookup, StampedLookup):
        return values
    return [{**lookup.stamp, **(value if isinstance(value, dict) else {"value": value})} for value in values]


def _enriched(lookup: Lookup, values: Sequence[object]) -> list[Enriched]:
    return [Enriched(id=lookup.id, j=j, value=value) for j, value in enumerate(values)]


def answer_timeouts(values: Sequence[object]) -> Callable[[Lookup], list[Enriched]]:
    """The default results of a record that timed out (A45)."""
    return lambda lookup: _enriched(lookup, values)


class JournalProbe:
    """The operator's probe: journals calls and outcomes, and reports the phases `call` and `result`.

    `cause_of` gives the cause of a call's error, if it is known. Not `timeout_answers`: the function's timeout handler
    completes nothing (A46), so an outcome that comes after the timeout is the call's own.
    """

    def __init__(
        self,
        journal: Journal,
        phases: Phases,
        *,
        cause_of: Callable[[BaseException], str | None] = cause_of,
        timeout_answers: bool = True,
    ) -> None:
        self._journal = journal
        self._phases = phases
        self._cause_of = cause_of
        self._timeout_answers = timeout_answers

    def called(self, record: Record, *, attempt: int) -> None:
        self._journal.called(id=record.value.id, attempt=attempt)
        self._phases.reach("call")

    def settled(
        self,
        record: Record,
        *,
        attempt: int,
        ending: Ending,
        final: bool,
        results: Sequence[Enriched | DeadLetter] | None = None,
        error: BaseException | None = None,
    ) -> None:
        """See `reference_impl.operator.probe.Probe`; a dead letter is journalled as the failure behind it."""
        if ending is Ending.TIMEOUT and not self._timeout_answers:
            ending = Ending.OK if error is None else Ending.FAIL
        if results and type(letter := results[0]) is DeadLetter:
            self._journal.settled(
                id=record.value.id,
                attempt=attempt,
                ending=(Ending.FAIL if ending is Ending.OK else ending).value,
                final=final,
                values=None,
                error=letter.error,
                by=letter.by,
            )
        else:
            self._journal.settled(
                id=record.value.id,
                attempt=attempt,
                ending=ending.value,
                final=final,
                values=None if results is None else _values(results),
                error=None if error is None else f"{type(error).__name__}: {error}",
                by=None if error is None else self._cause_of(error),
            )
        self._phases.reach("result")


def _values(results: Sequence[Enriched | DeadLetter]) -> list[Any]:
    if len(results) == 1:  # the usual case, without the cost of a comprehension
        return [results[0].value]  # type: ignore[union-attr]  # dead letters are handled by the caller
    return [result.value for result in results]  # type: ignore[union-attr]
