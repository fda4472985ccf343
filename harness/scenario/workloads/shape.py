"""What a lookups workload consists of: the elements of its source, its keys, its odd rows.

The elements of the lookups workload, and the workload faults of a source: hot keys, bursts, silence.

Answers to Flink's `StreamRecord` and `Watermark`. Invariant: every element is drawn from the seed and its number, so a
position has the same element in every attempt.

The values of odd rows (`workload.rows_like: odd`): texts and numbers that a careless client alters on the way.

Answers to a client that decodes with another character set, strips, unescapes or pads texts, takes NULL for an empty
text, or reads a number into a narrower type. Invariants: the place of a row in the table decides its values, at every
level; of the texts and numbers, all occur in the first 182 rows; a name is never NULL, for a row without a name stands
for no row.

The keys of the looked-up table, by kind (`workload.keys_like`): numbers, and keys that a careless lookup confuses.

Invariants: the first `count` keys of a kind are the first `count` of any larger number of keys, and no two are equal.
Keys of one group become equal when bits, a sign, accents or the border between two parts are lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from msgspec import Struct

from harness.scenario.model import Workload
from harness.system.choices import Draw
from harness.system.json_types import Json

if TYPE_CHECKING:
    from harness.faults.model.fault import Fault
    from harness.faults.model.workload import ShapingFault


Key = int | str | tuple[str, int]
"""A key: a number, a text, or a text and a number (`composite`)."""

_OFFSETS = (0, 128, 256, 32_768, 65_536, 2**31, 2**32, 2**40, 2**60)
"""What makes keys of `wide` differ in bits that a narrow integer or a double lacks, or uses for the sign."""
_BASES = 128
"""The bases of `wide`: less than the smallest offset apart."""
_NEXT_BASES = 2**41
_FORMS = ("é", "e\u0301", "É", "e", "\uff45", "ß", "ss", "SS", "й", "и", "😀", "😁")
"""Beginnings of keys of `unicode`, which are equal after normalisation, case folding, or by a lax collation."""


def keys_of(workload: Workload) -> Sequence[Key]:
    """The distinct keys that records ask for, in the order of the table's rows."""
    count = workload.keys
    match workload.keys_like:
        case "numbers":
            return range(count)
        case "wide":
            return [_wide(index) for index in range(count)]
        case "signed":
            return [(index + 1) // 2 * (1 if index % 2 else -1) for index in range(count)]
        case "unicode":
            return [f"{_FORMS[index % len(_FORMS)]}{index // len(_FORMS)}" for index in range(count)]
        case "composite":
            return [_composite(index) for index in range(count)]


def _wide(index: int) -> int:
    group, place = divmod(index, len(_OFFSETS))
    high, base = divmod(group, _BASES)
    return high * _NEXT_BASES + _OFFSETS[place] + base


def _composite(index: int) -> tuple[str, int]:
    """Composite keys; of each four, two are equal when their parts are joined, and two differ only in the sign."""
    group, place = divmod(index, 4)
    return ((f"{group}/", 11), (f"{group}/1", 1), (f"{group}/", 1), (f"{group}/", -11))[place]


def key_of(told: Any) -> Key:
    """The key that JSON holds as `told`: a composite one is a list there."""
    return tuple(told) if type(told) is list else told


def told_key(key: Key) -> int | str | list[str | int]:
    """The key as a history and JSON hold it."""
    return list(key) if isinstance(key, tuple) else key


_TEXTS: Final = (
    "",
    " a space at each end ",
    'it\'s "quoted", 100%s \\n and /*!50000 more */',
    "a tab\t, a line\nand a zero \x00",
    "Ångström",
    "\uff21\u030a e\u0301 \u200d",
    "李雷",
    "😀😁",
    "NULL",
    "007",
    "1e3",
    "x" * 200,
    "true",
)
"""Texts of at most 200 characters, the width of their column."""
_NUMBERS: Final = (
    0,
    -1,
    127,
    -129,
    255,
    32_768,
    -65_536,
    2**31,
    -(2**31) - 1,
    2**32 + 7,
    2**53 + 1,
    -(2**53) - 1,
    2**63 - 10**6,  # `change_rows` adds one for each change
    -(2**63),
)
"""Numbers of 64 bits, on both sides of what narrower types and doubles hold."""


def with_values_like(rows: Iterable[list[Any]], like: Literal["plain", "odd"]) -> list[list[Any]]:
    """`rows` (key, name, city, tier); `odd`: with other values, of which one city in thirteen is NULL."""
    if like == "plain":
        return list(rows)
    found: list[list[Any]] = []
    for place, row in enumerate(rows):
        turn, at = divmod(place, len(_TEXTS))
        city = None if at == turn % len(_TEXTS) else _TEXTS[(at + turn + 1) % len(_TEXTS)]
        found.append([row[0], _TEXTS[at], city, _NUMBERS[place % len(_NUMBERS)]])
    return found


class Lookup(Struct, frozen=True, kw_only=True):
    """The value of a record; the first argument of a user's `lookup(record, pool)`. A struct, for speed."""

    id: int
    """The record's id, unique in the run."""
    key: int | str | tuple[str, int]
    """The key to look up (`harness.scenario.workloads.shape.Key`)."""
    service_ms: int
    """The service time of the lookup in the database."""
    row_bytes: int = 0
    """The bytes of padding in each row of the answer."""

    def __getitem__(self, name: str) -> object:
        """A field by its name, as in the record of a job: one `expected` can serve both."""
        try:
            return getattr(self, name)
        except AttributeError as error:
            raise KeyError(*error.args) from error

    def as_json(self) -> Json:
        """The JSON form, for snapshots."""
        asked = {"id": self.id, "key": self.key, "service_ms": self.service_ms}
        return {**asked, "row_bytes": self.row_bytes} if self.row_bytes else asked


class OwnLookup(Lookup, frozen=True, kw_only=True):
    """A record of a user's own file; its further fields are attributes, and stand in `fields`."""

    fields: dict[str, Any]

    def __getattr__(self, name: str) -> Any:
        fields = object.__getattribute__(self, "fields")
        if name in fields:
            return fields[name]
        message = f"record {self.id} has no field `{name}`; its line has id, key, {', '.join(fields) or 'and no more'}"
        raise AttributeError(message)

    def as_json(self) -> Json:
        return {**super().as_json(), "fields": self.fields}


class StampedLookup(Lookup, frozen=True, kw_only=True):
    """A lookup with the stamp of the keyed operator in front; each of its results carries the stamp."""

    stamp: dict[str, int]

    def as_json(self) -> Json:
        return {**super().as_json(), "stamp": self.stamp}


@dataclass(frozen=True, slots=True, kw_only=True)
class MarkOfTime:
    """A watermark of a source."""

    timestamp: int


_STEPS_BACK_MAX = 20
"""How far a falling watermark may go back, in steps of event time between two records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    """`count` watermarks from position `begin` on, which rise in steps of 1 ms up to `until_ms`."""

    begin: int
    count: int
    floor_ms: int
    """The watermark before them, and their lower bound."""
    until_ms: int

    def timestamp(self, place: int) -> int:
        """The timestamp of the `place`-th; if there are too few milliseconds, the first ones are equal."""
        return max(self.floor_ms, self.until_ms - (self.count - 1 - place))


def burst_places(faults: Iterable[Fault], *, records: int) -> list[tuple[int, int]]:
    """The bursts: index of a record (from 0) and number of watermarks before it, in order."""
    bursts = (fault.burst(records) for fault in _shaping(faults))
    return sorted(burst for burst in bursts if burst is not None)


def idle_spans(faults: Iterable[Fault]) -> list[tuple[int, int]]:
    """The silences: index of a record (from 0) and duration (ms) before it."""
    silences = (fault.silence() for fault in _shaping(faults))
    return [silence for silence in silences if silence is not None]


def with_hot_keys(
    records: list[tuple[Lookup, int | None]], faults: Iterable[Fault], *, seed: int, subtask: int
) -> list[tuple[Lookup, int | None]]:
    """`records` as changed by the `hot_key` faults."""
    for fault in _shaping(faults):
        records = fault.reshaped(records, seed=seed, subtask=subtask)
    return records


def _shaping(faults: Iterable[Fault]) -> Iterator[ShapingFault]:
    from harness.faults.model.workload import ShapingFault  # noqa: PLC0415 - see above

    return (fault for fault in faults if isinstance(fault, ShapingFault))


def marks_below(timestamps: Sequence[int | None], *, every: int) -> list[int]:
    """A watermark after each `every` records of a file: below each record behind it, and none below the one before."""
    found: list[int] = []
    top = max((ts for ts in timestamps if ts is not None), default=0)
    least: int | None = None
    for place in range(len(timestamps) // every * every if every else 0, 0, -every):
        behind = [ts for ts in timestamps[place : place + every] if ts is not None]
        least = min([*behind, *([] if least is None else [least])], default=None)
        found.append(top if least is None else least - 1)
    return found[::-1]


def marks(workload: Workload, *, seed: int, subtask: int, step_ms: int, records: int) -> Sequence[int]:
    """The timestamps of the regular watermarks, in order; see `workload.watermarks`. `records`: how many."""
    every = workload.watermark_every
    count = records // every if every else 0
    rising = [(block + 1) * every * step_ms - 1 for block in range(count)]
    if workload.watermarks == "rising":
        return rising
    draw = Draw(seed, f"watermarks/subtask {subtask}")
    found: list[int] = []
    for mark in rising:
        if workload.watermarks == "repeating":  # two of five are equal to the one before
            found.append(found[-1] if found and draw.chance(400) else mark)
            continue
        fate = draw.index(4)
        if fate == 0 and found:
            found.append(found[-1])
        elif fate == 1:
            found.append(mark - step_ms * (1 + draw.index(_STEPS_BACK_MAX)))
        else:
            found.append(mark)
    return found
