"""Strangers in the lookup and its client: which rows come for which key, and when a connection is to be had.

Answers to keys that are narrowed or folded on the way, to caches, to results in a shared attribute, and to pools and
circuit breakers that never recover. Invariant: each wraps the lookup, or is a subclass of the pool; the operator is
the reference's.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

from harness.database.pool import Circuit, MayAskAgain
from harness.scenario.model import Scenario
from harness.sut.defects.defect import calls_are_lost, is_disturbed
from harness.sut.registry import LookupFunction
from harness.sut.variant import Kind, Variant, made_once
from tools.defects.kinds import Stranger
from tools.defects.lookups import asking_for, decoding
from tools.defects.where import has_several_results, has_timeout

_SLOTS: Final = 8
_TICK_S: Final = 0.02


def first_part(key: Any) -> Any:
    """The first part of a key of several."""
    return key[0] if isinstance(key, list | tuple) and key else key


def _as_double(key: Any) -> Any:
    """As a client reads it whose only number is the double."""
    return int(float(key)) if isinstance(key, int) else key


def _stripped(value: Any) -> Any:
    return value.strip() if isinstance(value, str) else value


def _null_as_text(value: Any) -> Any:
    return "" if value is None else value


def _at_most_32_bits(value: Any) -> Any:
    return max(-(2**31), min(value, 2**31 - 1)) if isinstance(value, int) else value


def caching_misses(lookup: LookupFunction) -> LookupFunction:
    """`lookup`, which remembers which keys had no rows."""
    missing: dict[Any, None] = {}

    async def remembered(record: Any, pool: Any) -> Any:
        if record.key in missing:
            return []
        rows = await lookup(record, pool)
        if not rows:
            missing[record.key] = None
        return rows

    return remembered


def colliding(lookup: LookupFunction) -> LookupFunction:
    """`lookup`, with a cache of eight slots for the newest answers, which does not compare the key."""
    slots: dict[int, tuple[int, Any]] = {}
    count = 0

    async def remembered(record: Any, pool: Any) -> Any:
        nonlocal count
        count += 1
        slot = hash(record.key) % _SLOTS
        since, rows = slots.get(slot, (0, None))
        if rows is not None and count - since < _SLOTS:
            return list(rows)
        answer = await lookup(record, pool)
        slots[slot] = (count, answer)
        return answer

    return remembered


def first_row(lookup: LookupFunction) -> LookupFunction:
    """`lookup`, which gives the first of a key's rows."""

    async def single(record: Any, pool: Any) -> Any:
        rows = await lookup(record, pool)
        return rows[:1] if isinstance(rows, list) else rows

    return single


def sharing_answer(lookup: LookupFunction) -> LookupFunction:
    """`lookup`, which keeps its answer in an attribute until the next turn of the loop."""
    newest: list[Any] = [None]

    async def shared(record: Any, pool: Any) -> Any:
        newest[0] = await lookup(record, pool)
        await asyncio.sleep(0)
        return newest[0]

    return shared


def joining(lookup: LookupFunction) -> LookupFunction:
    """`lookup`, where a call joins the one that runs since the same tick, if their keys look alike."""
    running: dict[tuple[int, int], asyncio.Future[Any]] = {}

    async def joined(record: Any, pool: Any) -> Any:
        key = int(asyncio.get_running_loop().time() / _TICK_S), record.key % 4
        if key in running:
            return await asyncio.shield(running[key])
        running[key] = task = asyncio.ensure_future(lookup(record, pool))
        try:
            return await task
        finally:
            running.pop(key, None)

    return joined


@made_once
def tired(pool: Kind) -> Kind:
    """`pool`, which answers with no rows when two statements in a row were lost."""

    class TiredPool(pool):  # type: ignore[misc]  # a class made of a class
        _lost = 0

        async def fetch_all(self, sql: str, args: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
            try:
                rows: list[tuple[Any, ...]] = await super().fetch_all(sql, args)
            except MayAskAgain:
                self._lost += 1
                if self._lost % 2:
                    raise
                return []
            self._lost = 0
            return rows

    return TiredPool


@made_once
def leaking_slots(pool: Kind) -> Kind:
    """`pool`, which does not get back the slot of a call that was cancelled."""

    class LeakingPool(pool):  # type: ignore[misc]
        _slots: asyncio.Semaphore

        async def _end(self, limit: asyncio.Timeout, error: BaseException | None) -> None:
            slots = self._slots
            if isinstance(error, asyncio.CancelledError):
                self._slots = asyncio.Semaphore(0)  # the slot is released here, where nobody waits for it
            try:
                await super()._end(limit, error)  # it does not suspend, so nobody else sees this
            finally:
                self._slots = slots

    return LeakingPool


class _StuckCircuit(Circuit):
    """Stays half-open after a trial connection that failed: nobody may make another."""

    def failed(self) -> None:
        was_probing = self._is_probing
        super().failed()
        self._is_probing = was_probing


class _OpenCircuit(Circuit):
    """Counts failures for good: once open, it lets one trial connection through at a time, for ever."""

    def succeeded(self) -> None:
        self._is_probing = False
        self._open_until_s = self._now_s() + self._backoff.next_ms() / 1000


def _with_circuit(kind: type[Circuit]) -> Any:
    @made_once
    def broken(pool: Kind) -> Kind:
        class BrokenPool(pool):  # type: ignore[misc]
            _circuit: Circuit

            def __init__(self, *args: Any, **parts: Any) -> None:
                super().__init__(*args, **parts)
                honest = self._circuit
                self._circuit = kind(now_s=honest._now_s, backoff=honest._backoff)  # noqa: SLF001

        return BrokenPool

    return broken


def _has_many_keys(scenario: Scenario) -> bool:
    return scenario.workload.keys > 1


def _has_odd_rows(scenario: Scenario) -> bool:
    return scenario.workload.rows_like == "odd"


_RIGHT = "a record gets the rows of its own key"
_NEW = "an answer is no older than its call"

OF_ANSWERS = (
    Stranger(
        name="key-first-part",
        about="of a key of several parts only the first is compared",
        component="lookup",
        breaks=_RIGHT,
        variant=Variant(lookup=asking_for(first_part)),
        where="there are keys of several parts",
        applies=lambda scenario: scenario.workload.keys_like == "composite",
        scenario="keys-composite",
        convicted_by=("V5", "V8", "V9", "V10", "V14"),
    ),
    Stranger(
        name="key-as-double",
        about="a key is asked for as the double that is nearest to it",
        component="lookup",
        breaks=_RIGHT,
        variant=Variant(lookup=asking_for(_as_double)),
        where="keys are numbers beyond two to the 53rd",
        applies=lambda scenario: scenario.workload.keys_like == "wide",
        scenario="keys-beyond-two-bytes",
        convicted_by=("V8",),
    ),
    Stranger(
        name="texts-stripped",
        about="the texts of a result lose the white space at their ends",
        component="client",
        breaks="a result holds what the table holds",
        variant=Variant(pool=decoding(_stripped)),
        where="rows hold odd values",
        applies=_has_odd_rows,
        scenario="values-odd",
        convicted_by=("V8",),
    ),
    Stranger(
        name="null-as-text",
        about="NULL in a result becomes an empty text",
        component="client",
        breaks="a result holds what the table holds",
        variant=Variant(pool=decoding(_null_as_text)),
        where="rows hold odd values",
        applies=_has_odd_rows,
        scenario="values-odd",
        convicted_by=("V8",),
    ),
    Stranger(
        name="numbers-in-32-bits",
        about="a number of a result beyond 32 bits becomes the nearest one that has them",
        component="client",
        breaks="a result holds what the table holds",
        variant=Variant(pool=decoding(_at_most_32_bits)),
        where="rows hold odd values",
        applies=_has_odd_rows,
        scenario="values-odd",
        convicted_by=("V8",),
    ),
    Stranger(
        name="misses-remembered",
        about="a key that had no rows is never asked for again",
        component="lookup",
        breaks=_NEW,
        variant=Variant(lookup=caching_misses),
        where="the table changes during the run",
        applies=has_several_results,
        scenario="rows-come-and-go",
        convicted_by=("V8",),
    ),
    Stranger(
        name="cache-slots-collide",
        about="a cache of eight slots gives the answer in its slot without a look at the key",
        component="lookup",
        breaks=_RIGHT,
        variant=Variant(lookup=colliding),
        where="there are several keys",
        applies=_has_many_keys,
        convicted_by=("V8", "V9"),
    ),
    Stranger(
        name="first-row-only",
        about="of a key's rows only the first is used",
        component="lookup",
        breaks=_RIGHT,
        variant=Variant(lookup=first_row),
        where="records have several results",
        applies=has_several_results,
        convicted_by=("V5", "V8", "V9", "V10", "V14"),
    ),
    Stranger(
        name="answer-in-shared-attribute",
        about="answers pass through one attribute, so one that comes in the same turn overwrites another",
        component="lookup",
        breaks="a reply belongs to its call",
        variant=Variant(lookup=sharing_answer),
        where="there are several keys",
        applies=_has_many_keys,
        convicted_by=("V8", "V9"),
    ),
    Stranger(
        name="joins-other-calls",
        about="a call that is made within 20 ms of another joins it, if their keys look alike",
        component="lookup",
        breaks="a reply belongs to its call",
        variant=Variant(lookup=joining),
        where="there are several keys",
        applies=_has_many_keys,
        convicted_by=("V8", "V9"),
    ),
    Stranger(
        name="second-loss-is-no-row",
        about="when two statements in a row are lost, the second is taken for an answer without rows",
        component="client",
        breaks=_RIGHT,
        variant=Variant(pool=tired),
        where="queries end with an error, or are lost; what they should give is told",
        applies=calls_are_lost,
        convicted_by=("V5", "V8", "V9", "V10", "V14"),
    ),
    Stranger(
        name="cancelled-call-keeps-slot",
        about="the slot of a call that was cancelled is never free again",
        component="client",
        breaks="a call that can be made is made",
        variant=Variant(pool=leaking_slots),
        where="calls time out",
        applies=has_timeout,
        scenario="answers-after-cancellations",
        convicted_by=("V16", "V18"),
    ),
    Stranger(
        name="circuit-sticks-half-open",
        about="a trial connection that fails bars all later ones",
        component="circuit",
        breaks="the circuit closes when the server is back",
        variant=Variant(pool=_with_circuit(_StuckCircuit)),
        where="something disturbs the run",
        applies=is_disturbed,
        scenario="circuit-opens",
        convicted_by=("V16",),
    ),
    Stranger(
        name="circuit-never-closes",
        about="a trial connection that succeeds does not close the circuit",
        component="circuit",
        breaks="the circuit closes when the server is back",
        variant=Variant(pool=_with_circuit(_OpenCircuit)),
        where="something disturbs the run",
        applies=is_disturbed,
        scenario="circuit-closes-again",
        convicted_by=("V18",),
    ),
)
