"""The records that a job's source offers: drawn from the seed, or read from a user's file.

Invariant: seed, job file and scenario determine the records; an id tells one from all others.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, TypeGuard

from harness.levels.job.job_file import JobFile, text_in
from harness.levels.job.job_scenario import JobScenario
from harness.levels.job.sink_rows import id_text
from harness.system.choices import Choices
from harness.system.errors import UsageError
from harness.system.json_types import JsonView

_STEP_MS: Final = 10
_FAILS: Final = "fails"
_ROUNDS: Final = 7
"""Rounds of sentinels: of each partition 1, 2, 4, ... records, 127 in all, to push out what waits for more rows."""
_NUMBERED: Final = re.compile(r".*?([0-9]+)", re.DOTALL)
"""An id that ends in a number, by which further ones are made."""


class StatedRecord(dict[str, Any]):
    """A record as `claims.expected` gets it: its fields by name, `id` and `key` among them, or as attributes.

    So does the `expected` of a lookup, and one function can serve both.
    """

    def __getattr__(self, name: str) -> object:
        if name in self:
            return self[name]
        raise AttributeError(f"the record has no field `{name}`; it has {', '.join(self)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceRecord:
    """One record of the source."""

    part: int
    pos: int
    """Its place in its partition, from 0."""
    id: Any
    """Its id as the history tells it: an int or a text, or a list with one for each id column of the sink."""
    key: Any
    fails: bool
    """Whether no right job can process it."""
    body: Mapping[str, Any]
    """What the source holds."""

    @property
    def stated(self) -> StatedRecord:
        """As `claims.expected` gets it."""
        return StatedRecord({"id": self.id, "key": self.key, **self.body})


@dataclass(frozen=True, slots=True, kw_only=True)
class JobInput:
    """All that a run offers."""

    records: Sequence[SourceRecord]
    """The records in the order in which they are offered."""
    keys: Sequence[Any]
    """The keys that have a row to look up, if the lookups are not the user's own."""
    sentinels: Sequence[Sequence[SourceRecord]] = ()
    """Further records, in rounds, for a job that went quiet without its last ones: see `Offering.offer_sentinels`."""

    @property
    def last_of_parts(self) -> Mapping[int, Sequence[SourceRecord]]:
        """The records of each partition, the last one first."""
        parts: dict[int, list[SourceRecord]] = {}
        for record in reversed(self.records):
            parts.setdefault(record.part, []).append(record)
        return parts


def read_input(job: JobFile, scenario: JobScenario, *, seed: int) -> JobInput:
    """The records of a run. Raises UsageError if the user's file is wrong."""
    if job.source.records is None:
        bodies = list(_drawn(job, scenario, seed=seed))
    else:
        bodies = _own(job, job.path(job.source.records))
    records = _placed(bodies, job)
    keys = list(dict.fromkeys(record.key for record in records))
    given = JobInput(records=records, keys=keys)
    return replace(given, sentinels=list(_sentinels(given, job)))


def _sentinels(given: JobInput, job: JobFile) -> Iterator[Sequence[SourceRecord]]:
    """Rounds of copies of each partition's last records, with ids and times behind all others.

    None if no field of the ids ends in a number in every record, or rows are of keys, which a further record changes.
    """
    if job.sink.rows == "key":
        return
    bodies, names, ts = [record.body for record in given.records], _id_fields(job), job.source.fields.ts
    counted = (name for name in names if all(_NUMBERED.fullmatch(str(body[name])) for body in bodies))
    if (name := next(counted, None)) is None:
        return
    made = max(int(found[1]) for body in bodies if (found := _NUMBERED.fullmatch(str(body[name]))))
    last_ts = max((body[ts] for body in bodies if isinstance(body.get(ts), int)), default=None)
    last = given.last_of_parts
    right = {part: [one for one in same if not one.fails] for part, same in last.items()}
    for number in range(_ROUNDS):
        some = []
        for part, place in (
            (part, place) for part in right for place in range(2**number - 1, 2 ** (number + 1) - 1)
        ):
            if not right[part]:
                continue
            old, made = right[part][place % len(right[part])], made + 1
            further = {name: _further(old.body[name], made)}
            if last_ts is not None:
                last_ts = further[ts] = last_ts + _STEP_MS
            body = {**old.body, **further}
            ids = [body[one] for one in names]
            pos = last[part][0].pos + 1 + place
            some.append(replace(old, pos=pos, id=ids if len(ids) > 1 else ids[0], body=body))
        yield some


def _further(id_: object, number: int) -> int | str:
    """An id like `id_` with another number."""
    if isinstance(id_, int):
        return number
    prefix = str(id_).rstrip("0123456789")
    return prefix + str(number).zfill(len(str(id_)) - len(prefix))


def _drawn(job: JobFile, scenario: JobScenario, *, seed: int) -> Iterator[JsonView]:
    fields, draw = job.source.fields, Choices(seed, "records of a job")
    for number in range(1, scenario.records + 1):
        key = draw.between(1, scenario.keys)
        if scenario.keys_come == "in-turn":
            key = 1 + (number - 1) % scenario.keys
        yield {fields.id: number, fields.key: key, fields.ts: number * _STEP_MS}


def _own(job: JobFile, file: Path) -> list[JsonView]:
    text = text_in(file, named=str(file), fix="correct `source.records`")
    bodies = []
    fields, of_table = job.source.fields, job.source.kind == "table"
    # The table `inbox` has a column for the id's field, too.
    wanted = dict.fromkeys([*_id_fields(job), *([fields.id] if of_table else []), fields.key])
    # Not `splitlines`: a text of JSON may hold what that takes for the end of a line.
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            body = json.loads(line)
        except json.JSONDecodeError as error:
            raise UsageError(
                f"{file}:{number}: this is not JSON: {error.msg}", fix="one object a line"
            ) from error
        lacking = [name for name in wanted if not (isinstance(body, dict) and _is_told(body.get(name)))]
        if lacking:
            message = (
                f"{file}:{number}: this record has no {' and no '.join(f'`{name}`' for name in lacking)}"
            )
            fix = "every record has an id and a key, an int or a text; `source.fields` says what they are called"
            raise UsageError(message, fix=fix)
        bodies.append(body)
    if not bodies:
        raise UsageError(f"{file} holds no record", fix="write one JSON object a line")
    return bodies


def _id_fields(job: JobFile) -> list[str]:
    """The fields of a record that make its id, one for each id column of the sink."""
    fields, sink = job.source.fields, job.sink
    if len(sink.id) == 1 or sink.rows == "key":
        return [fields.id]
    names = {"id": fields.id, "key": fields.key, "ts": fields.ts, sink.key: fields.key}
    return [names.get(column, column) for column in sink.id]


def _is_told(value: object) -> TypeGuard[int | str]:
    return isinstance(value, int | str) and not isinstance(value, bool)


def _placed(bodies: Sequence[Mapping[str, object]], job: JobFile) -> list[SourceRecord]:
    """Deals the records to the partitions by their key, so that a key stays in one."""
    parts, names = job.source.partitions, _id_fields(job)
    key_name = job.source.fields.key
    part_of: dict[Any, int] = {}
    places: dict[int, int] = {}
    seen: dict[str, int] = {}
    records = []
    for number, body in enumerate(bodies, start=1):
        lacking = [name for name in names if name not in body]
        if lacking:
            message = f"sink.id names {len(names)} columns, and the records have no field `{lacking[0]}`"
            raise UsageError(
                message, fix="name columns that are fields of the records, or give `source.records`"
            )
        parts_of_id = [body[name] for name in names]
        id_ = parts_of_id[0] if len(names) == 1 else parts_of_id
        text = id_text(id_)
        if text in seen:
            message = f"records {seen[text]} and {number} have the same id {id_}"
            raise UsageError(message, fix="give each record an id of its own: rows are told apart by it")
        seen[text] = number
        part = part_of.setdefault(body[key_name], len(part_of) % parts)
        pos = places.get(part, 0)
        places[part] = pos + 1
        records.append(
            SourceRecord(
                part=part,
                pos=pos,
                id=id_,
                key=body[key_name],
                fails=body.get(_FAILS) is True,
                body=body,
            )
        )
    return records
