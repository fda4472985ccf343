"""The records of a user's own file (`records: FILE.jsonl`), read, checked, and dealt to subtasks by key.

Invariants: records of one key are of one subtask, in the order of the file; an id stands once in the file. Every
mistake is told with its file and line.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any, Final, NoReturn

import msgspec

from harness.system.errors import UsageError
from harness.system.json_types import JsonView

_TAKEN: Final = frozenset({"fields", "as_json", "row_bytes"})
"""Names that a record has of its own."""
_INTEGERS: Final = range(-(1 << 63), 1 << 63)
"""The integers that a column of the database holds."""


class OwnRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One record of the file."""

    id: int
    key: int | str | list[int | str]
    ts: int | None
    """Its event time in ms; None: it has none."""
    service_ms: int | None
    """How long the database should take for it; None: drawn as for other records."""
    fields: dict[str, Any]
    """All fields of its line but `id`, `key` and `service_ms`."""


def read_records(path: str | Path) -> tuple[OwnRecord, ...]:
    """The records of the file, in its order. Raises UsageError with the line of the first mistake."""
    file = Path(path)
    try:
        state = file.stat()
        return _read(file, state.st_mtime_ns, state.st_size)
    except OSError as error:
        message = f"the file of records {file} cannot be read: {error.strerror}"
        raise UsageError(message, fix="name a file with one JSON object a line") from error


def dealt(records: Sequence[OwnRecord], *, subtasks: int) -> list[list[OwnRecord]]:
    """The records of each subtask."""
    hands: list[list[OwnRecord]] = [[] for _ in range(subtasks)]
    for record in records:
        drawn = blake2b(msgspec.json.encode(record.key), digest_size=8).digest()
        hands[int.from_bytes(drawn) % subtasks].append(record)
    return hands


@lru_cache(maxsize=16)
def _read(file: Path, _changed_ns: int, _bytes: int) -> tuple[OwnRecord, ...]:
    records: list[OwnRecord] = []
    lines: dict[int, int] = {}
    named: dict[str, bool] = {}
    for number, told in _objects(file):
        if not records:
            named = {name: name in told for name in ("id", "ts")}
        record = _record(told, place=len(records), at=f"{file}:{number}", named=named)
        if record.id in lines:
            _refuse(
                f"{file}:{number}",
                f"id {record.id} stands in line {lines[record.id]} already",
                "give each record an id of its own",
            )
        lines[record.id] = number
        records.append(record)
    if not records:
        _refuse(str(file), "it holds no record", 'write one JSON object a line, as in {"key": 7}')
    return tuple(records)


def _objects(file: Path) -> Iterator[tuple[int, JsonView]]:
    """The JSON object of each line that is not blank, with the number of the line."""
    for number, line in enumerate(file.read_bytes().split(b"\n"), start=1):
        if not line.strip():
            continue
        try:
            told = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            _refuse(
                f"{file}:{number}",
                f"this is no JSON ({error})",
                'write one JSON object a line, as in {"key": 7}',
            )
        if not isinstance(told, dict):
            _refuse(
                f"{file}:{number}", "this is no JSON object", 'write one JSON object a line, as in {"key": 7}'
            )
        yield number, told


def _record(told: Mapping[str, object], *, place: int, at: str, named: Mapping[str, bool]) -> OwnRecord:
    """`named`: whether the records before it have an `id`, and a `ts`."""
    if "key" not in told:
        _refuse(at, "it has no field `key`", 'add what is to be looked up, as in {"key": 7}')
    for name, is_there in named.items():
        if is_there != (name in told):
            _refuse(
                at, f"some records have `{name}`, and some have none", f"give all of them `{name}`, or none"
            )
    taken = _TAKEN.intersection(told)
    if taken:
        _refuse(
            at, f"a record has `{min(taken)}` already, with another meaning", "give the field another name"
        )
    return OwnRecord(
        id=_whole(told, "id", at=at) if named["id"] else place,
        key=_key(told["key"], at=at),
        ts=_whole(told, "ts", at=at) if told.get("ts") is not None else None,
        service_ms=_whole(told, "service_ms", at=at, least=0) if "service_ms" in told else None,
        fields={name: value for name, value in told.items() if name not in {"id", "key", "service_ms"}},
    )


def _whole(told: Mapping[str, object], name: str, *, at: str, least: int | None = None) -> int:
    value = told[name]
    if not isinstance(value, int) or isinstance(value, bool) or value not in _INTEGERS:
        _refuse(at, f"`{name}` is {value!r}", "write a whole number of at most 64 bits")
    if least is not None and value < least:
        _refuse(at, f"`{name}` is {value}", f"write {least} or more")
    return value


def _key(value: Any, *, at: str) -> int | str | list[int | str]:
    parts = value if isinstance(value, list) else [value]
    is_key = bool(parts) and all(
        isinstance(part, str) or (isinstance(part, int) and not isinstance(part, bool) and part in _INTEGERS)
        for part in parts
    )
    if not is_key:
        _refuse(at, f"`key` is {value!r}", "write a whole number, a text, or a list of these")
    return value  # type: ignore[no-any-return]  # checked above


def _refuse(at: str, what: str, fix: str) -> NoReturn:
    raise UsageError(f"{at}: {what}", fix=fix)
