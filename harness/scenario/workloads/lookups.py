"""The lookups workload: each record looks up one key in the database; records come over one or two inputs.

Answers to a replayable Flink source, and to the two inputs of a `CoProcessFunction`. Invariants: seed, subtask and
position determine the element and its input, in any process; a record after a rising watermark is later than it; a
watermark has the same position on all inputs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from typing import Any, Literal

from harness.faults.parts.own_records import OwnRecord, dealt
from harness.history.values import END_OF_TIME
from harness.scenario.model import Fault, Scenario, Task, Workload
from harness.scenario.workloads.shape import (
    Burst,
    Key,
    Lookup,
    MarkOfTime,
    OwnLookup,
    burst_places,
    idle_spans,
    key_of,
    keys_of,
    marks,
    marks_below,
    with_hot_keys,
    with_values_like,
)
from harness.system.choices import Choices, Draw
from harness.system.json_types import Json

__all__ = [
    "CustomerRows",
    "Inputs",
    "Lookup",
    "LookupSource",
    "MarkOfTime",
    "changing_keys",
    "customer_rows",
    "expected_results",
    "expected_value",
    "least_ts",
    "nth_ids",
    "offered_records",
    "records_of_all",
]

_EVENT_STEP_MS = 10
_DISORDER_MS = 50


class LookupSource:
    """The elements of one subtask's source, by position.

    `faults`: the scenario's faults; only those that change this source have an effect. `own`: the records of a user's
    file, dealt by key; None: they are drawn.
    """

    def __init__(
        self,
        *,
        workload: Workload,
        seed: int,
        subtask: int,
        faults: Iterable[Fault] = (),
        own: Sequence[OwnRecord] | None = None,
    ) -> None:
        self._workload = workload
        self._every = workload.watermark_every
        self._keys = keys_of(workload)
        mine = [fault for fault in faults if fault.of_subtask in {None, subtask}]
        draw = Draw(seed, f"lookups/subtask {subtask}")
        skewed = Draw(seed, f"skew/subtask {subtask}") if workload.skew else draw
        if own is None:
            records = [self._draw(index, subtask, draw, skewed) for index in range(workload.records)]
        else:
            mine_of_file = dealt(own, subtasks=workload.subtasks)[subtask]
            records = [self._own(index, record, draw) for index, record in enumerate(mine_of_file)]
        self.records = with_hot_keys(records, mine, seed=seed, subtask=subtask)
        if own is not None and any(record.ts is not None for record in own):
            self._marks: Sequence[int] = marks_below(
                [ts for _, ts in records], every=workload.watermark_every
            )
        else:
            self._marks = marks(
                workload, seed=seed, subtask=subtask, step_ms=_EVENT_STEP_MS, records=len(records)
            )
        self._idle = idle_spans(mine)
        self._plain = len(records) + len(self._marks) + workload.final_watermark
        self._bursts = [
            self._burst(index, count) for index, count in burst_places(mine, records=len(records))
        ]
        self._length = self._plain + sum(burst.count for burst in self._bursts)

    def _draw(self, index: int, subtask: int, draw: Draw, skewed: Draw) -> tuple[Lookup, int | None]:
        workload = self._workload
        key = self._keys[int(draw.unit() * workload.keys)]
        service_ms = int(draw.unit() * (workload.service + 1))
        if workload.skew and skewed.chance(workload.skew * 10):
            key = self._keys[0]
        lookup = Lookup(
            id=index * workload.subtasks + subtask,
            key=key,
            service_ms=service_ms,
            row_bytes=workload.row_bytes,
        )
        return lookup, self._timestamp(index, draw)

    def _own(self, index: int, record: OwnRecord, draw: Draw) -> tuple[Lookup, int | None]:
        drawn_ms = draw.between(0, self._workload.service)
        lookup = OwnLookup(
            id=record.id,
            key=key_of(record.key),
            service_ms=drawn_ms if record.service_ms is None else record.service_ms,
            row_bytes=self._workload.row_bytes,
            fields=record.fields,
        )
        drawn = self._timestamp(index, draw)
        return lookup, record.ts if "ts" in record.fields else drawn

    def _timestamp(self, index: int, draw: Draw) -> int | None:
        workload = self._workload
        timestamp = index * _EVENT_STEP_MS + int(draw.unit() * (_DISORDER_MS + 1))
        has_none = workload.timestamps == "none" or (workload.timestamps == "some" and draw.chance(300))
        return None if has_none else timestamp

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, position: int) -> tuple[Lookup, int | None] | MarkOfTime:
        """The record (with its event time in ms or None) or the watermark at `position`."""
        for burst in self._bursts:
            if position < burst.begin:
                break
            if position < burst.begin + burst.count:
                return MarkOfTime(timestamp=burst.timestamp(position - burst.begin))
            position -= burst.count
        if position == self._plain - 1 and self._workload.final_watermark:
            return MarkOfTime(timestamp=END_OF_TIME)
        if not self._every:
            return self.records[position]
        block, place = position // (self._every + 1), position % (self._every + 1)
        return (
            MarkOfTime(timestamp=self._marks[block])
            if place == self._every
            else self.records[block * self._every + place]
        )

    def _plain_position(self, index: int) -> int:
        """The position of the `index`-th record (from 0) without bursts."""
        return index + (index // self._every if self._every else 0)

    def _burst(self, index: int, count: int) -> Burst:
        """The burst before the `index`-th record; not lower than the watermark before it, nor later than the record."""
        until_ms = index * _EVENT_STEP_MS - 1
        block = index // self._every if self._every else 0
        floor_ms = self._marks[block - 1] if block else -1
        begin = self._plain_position(index)
        return Burst(begin=begin, count=count, floor_ms=min(floor_ms, until_ms), until_ms=until_ms)

    def position_of(self, record: int) -> int:
        """The position of the `record`-th record, counted from 1."""
        plain = self._plain_position(record - 1)
        return plain + sum(burst.count for burst in self._bursts if burst.begin <= plain)

    @property
    def silences(self) -> dict[int, int]:
        """How long (ms) faults make it send nothing, by the position before which they do."""
        return {self.position_of(index + 1): lasts_ms for index, lasts_ms in self._idle}

    def due_ms(self, position: int) -> int:
        """When the element at `position` is due, in ms since the subtask's first attempt began."""
        for burst in self._bursts:
            if position < burst.begin:
                break
            position = max(burst.begin, position - burst.count)
        index = position - position // (self._every + 1) if self._every else position
        silent_ms = sum(lasts_ms for first, lasts_ms in self._idle if index >= first) if self._idle else 0
        return index * 1000 // self._workload.rate + silent_ms


def nth_ids(
    workload: Workload, *, subtask: int, first: int, count: int, own: Sequence[OwnRecord] | None = None
) -> Sequence[int]:
    """The ids of `count` records of `subtask`, from its `first` record on (counted from 1)."""
    if own is not None:
        hand = dealt(own, subtasks=workload.subtasks)[subtask]
        return [record.id for record in hand[first - 1 : first - 1 + count]]
    step = workload.subtasks
    begin = (first - 1) * step + subtask
    return range(begin, begin + count * step, step)


def customer_rows(
    *, keys: Sequence[Key], seed: int, fanout: int = 1, like: Literal["plain", "odd"] = "plain"
) -> list[list[Any]]:
    """The rows (key, name, city, tier) of the lookup table: one for each key, or from 0 to `fanout`."""
    from faker import Faker  # noqa: PLC0415 - slow to import, and attempts do not need it

    faker = Faker("en_US")
    faker.seed_instance(seed)
    counts = Choices(seed, "rows of a key")
    rows = [
        [key, faker.name(), faker.city(), faker.random_int(1, 5)]
        for key in keys
        for _ in range(1 if fanout == 1 else counts.between(0, fanout))
    ]
    return with_values_like(rows, like)


def records_of_all(workload: Workload, *, seed: int) -> list[tuple[Lookup, int | None]]:
    """The records of all partitions, in the order in which they are due; the id is the number."""
    draw, keys = Draw(seed, "lookups of all partitions"), keys_of(workload)
    records: list[tuple[Lookup, int | None]] = []
    for number in range(workload.records * workload.subtasks):
        key, service_ms = keys[draw.index(workload.keys)], draw.between(0, workload.service)
        if workload.skew and draw.chance(workload.skew * 10):
            key = keys[0]
        ts = least_ts(number, workload) + draw.between(0, _DISORDER_MS)
        has_none = workload.timestamps == "none" or (workload.timestamps == "some" and draw.chance(300))
        lookup = Lookup(id=number, key=key, service_ms=service_ms, row_bytes=workload.row_bytes)
        records.append((lookup, None if has_none else ts))
    return records


def least_ts(number: int, workload: Workload) -> int:
    """The earliest event time of the record with that number, and of all behind it."""
    return number * _EVENT_STEP_MS // workload.subtasks


def offered_records(
    scenario: Scenario,
    *,
    seed: int,
    rows: Iterable[Sequence[object]],
    known: Callable[[int | str, object], Sequence[object] | None] | None = None,
) -> int:
    """How many records have results to offer: what is `known` of (id, key), else whether the key has rows.

    Of tables of the user's own the rows are not known, and each record counts of which nothing else is.
    """
    workload, own = scenario.workload, scenario.own_records
    has_own_tables = scenario.own_schema is not None
    if known is None and own is not None and has_own_tables:
        return len(own)
    if known is None and own is None and (workload.fanout == 1 or has_own_tables):
        return workload.records * workload.subtasks
    if scenario.rescales:
        every: Iterable[Lookup] = (lookup for lookup, _ in records_of_all(workload, seed=seed))
    else:
        every = (
            lookup
            for subtask in range(workload.subtasks)
            for lookup, _ in LookupSource(
                workload=workload, seed=seed, subtask=subtask, faults=scenario.faults, own=own
            ).records
        )
    answered = {key_of(row[0]) for row in rows}

    def offers(lookup: Lookup) -> bool:
        results = None if known is None else known(lookup.id, lookup.key)
        return has_own_tables or lookup.key in answered if results is None else bool(results)

    return sum(map(offers, every))


class CustomerRows:
    """The rows of table `customer` with all their columns, as they are before the run. Made as they are read."""

    def __init__(self, rows: Sequence[Sequence[object]]) -> None:
        self._rows = rows

    def __iter__(self) -> Iterator[Json]:
        for number, row in enumerate(self._rows, start=1):
            yield _columns(number, row)

    def whole(self) -> Iterable[Json]:
        """Every row; may be read more than once."""
        return self

    def by_key(self, keys: Iterable[Key]) -> dict[Key, list[Json]]:
        """The rows of `keys`; keys without rows are left out."""
        wanted = dict.fromkeys(keys)
        found: dict[Key, list[Json]] = {}
        for number, row in enumerate(self._rows, start=1):
            key = key_of(row[0])
            if key in wanted:
                found.setdefault(key, []).append(_columns(number, row))
        return found


def _columns(number: int, row: Sequence[object]) -> Json:
    told, name, city, tier = row
    key = key_of(told)
    k, part = key if isinstance(key, tuple) else (key, None)
    return {"n": number, "k": k, "part": part, "name": name, "city": city, "tier": tier, "ver": 0}


def expected_value(row: Sequence[object]) -> Json:
    """The result of the reference lookup for `row`."""
    _, name, city, tier = row
    return {"name": name, "city": city, "tier": tier}


def expected_results(rows: Iterable[Sequence[object]]) -> dict[Key, list[object]]:
    """The results of the reference lookup for each key that has rows; other keys have no result."""
    answers: dict[Key, list[object]] = {}
    for row in rows:
        answers.setdefault(key_of(row[0]), []).append(expected_value(row))
    return answers


def changing_keys(scenario: Scenario, rows: Iterable[Sequence[object]]) -> Mapping[Key, None]:
    """The keys of `rows` that faults of the scenario may change: the first ones of the table."""
    count = max((fault.count for fault in scenario.changing), default=0)
    keys = dict.fromkeys(key_of(row[0]) for row in rows) if count else {}
    return dict.fromkeys(islice(keys, count))


class Inputs:
    """The inputs of one subtask: which element of `source` comes over which input."""

    def __init__(self, task: Task, source: LookupSource, *, seed: int, subtask: int) -> None:
        draw = Draw(seed, f"inputs/subtask {subtask}")
        self.count = task.inputs
        self._lag_ms = task.lag
        self._of_records = {lookup.id: draw.index(task.inputs) for lookup, _ in source.records}
        self._idle = _idle_inputs(source, every=task.idle)
        self._late = _late_inputs(source, every=task.idle, catch_up=task.catch_up)
        self._left = _last_marks(source)
        self._over = [
            self._inputs_of(source[position], self._idle[position]) for position in range(len(source))
        ]
        due_ms = (source.due_ms(at) + max(map(self.lag_ms, over)) for at, over in enumerate(self._over))
        self._clock_ms = list(accumulate(due_ms, max))

    def _inputs_of(
        self, element: tuple[Lookup, int | None] | MarkOfTime, idle: int | None
    ) -> tuple[int, ...]:
        if isinstance(element, MarkOfTime):
            return tuple(range(self.count))
        lookup, _ = element
        if idle is not None:
            self._of_records[lookup.id] = 1 - idle
        return (self._of_records.get(lookup.id, 0),)  # what is inherited came over an input before

    def __len__(self) -> int:
        """The number of source positions."""
        return len(self._over)

    def of_record(self, lookup: Lookup) -> int:
        """The input of a record."""
        return self._of_records[lookup.id]

    def over(self, position: int) -> tuple[int, ...]:
        """The inputs of the element at `position`: one for a record, all for a watermark."""
        return self._over[position]

    def idle(self, position: int) -> int | None:
        """The input that is idle from the watermark at `position` on, or at a record; None: both are active."""
        return self._idle[position] if position >= 0 else None

    def clock_ms(self, position: int) -> int:
        """The processing time at which `position` is read, the same in every attempt: when all up to it are due."""
        return self._clock_ms[position] if position >= 0 else 0

    def is_read(self, number: int, *, begin: int, end: int) -> bool:
        """Whether input `number` has no element at the positions from `begin` to before `end`."""
        return all(number not in over for over in self._over[begin:end])

    def lag_ms(self, number: int) -> int:
        """How far input `number` is behind."""
        return self._lag_ms if number else 0

    def all_fall_idle(self, position: int) -> bool:
        """Whether both inputs fall idle at the watermark at `position`; input 0 is active again at once."""
        return self.idle(position) == 1 and self.idle(position - 1) is None

    def late(self, position: int) -> LateInput | None:
        """The input that has woken up and is behind from the watermark at `position` on, or at a record."""
        return self._late[position] if position >= 0 else None

    def left(self, position: int) -> int | None:
        """The last watermark up to `position`; None: there is none."""
        mark = self._left[position] if position >= 0 else None
        return None if mark is None else self.combined(mark)

    def timestamp(self, number: int, mark: int, *, position: int) -> int:
        """The timestamp on input `number` of the watermark `mark`, which stands at `position`."""
        late = self.late(position)
        return late.brings if late is not None and late.number == number else mark - self.lag_ms(number)

    def combined(self, mark: int) -> int:
        """The combined watermark after `mark` has come over all inputs: the minimum of those that count (W1, W2)."""
        return min(mark - self.lag_ms(number) for number in range(self.count))


def _idle_inputs(source: LookupSource, *, every: int) -> list[int | None]:
    """The idle input at each position: for `every` watermarks none, then input 1, none, and input 0."""
    marks, found = 0, list[int | None]()
    for position in range(len(source)):
        marks += isinstance(source[position], MarkOfTime)
        found.append((None, 1, None, 0)[(marks - 1) // every % 4] if every and marks else None)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class LateInput:
    """An input that has woken up, and whose last watermark is behind what has left."""

    number: int
    brings: int
    """Its last watermark."""


def _late_inputs(source: LookupSource, *, every: int, catch_up: int) -> list[LateInput | None]:
    """The input that is behind at each position: it resumes after `every` watermarks where it stopped."""
    marks, late, found = list[int](), None, list[LateInput | None]()
    for position in range(len(source)):
        match source[position]:
            case MarkOfTime(timestamp=mark) if catch_up:
                marks.append(mark)
                phase, place = divmod(len(marks) - 1, every)
                late, woken = None, (0, None, 1, None)[phase % 4]
                if phase and woken is not None and place < catch_up:
                    late = LateInput(number=woken, brings=marks[-every])
        found.append(late)
    return found


def _last_marks(source: LookupSource) -> list[int | None]:
    """The last watermark up to each position."""
    found: list[int | None] = []
    for position in range(len(source)):
        element = source[position]
        before = found[-1] if found else None
        found.append(element.timestamp if isinstance(element, MarkOfTime) else before)
    return found
