"""Finds what each record of a run with a user's lookup must yield: from `expected`, else from the calm twin.

Answers to Hypothesis' oracles and to metamorphic testing. Invariants: a lookup is never judged by its own results in
the run; a record whose key a fault changes has no expected results; what is not known is told.

Tells of each answer of a user's lookup which version of its key's rows it shows, where a fault changes the rows.

Our own lookup reads the version with the rows; a user's answer is compared with the rows of every version. Invariants:
only keys are told whose calm answer was their rows; where several versions have such rows, one that acquits is told, so
a right answer is never convicted.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from typing import Any, Final, Protocol, TypeVar

from msgspec import UNSET
from msgspec.structs import replace

from harness.faults.change_rows import ChangeRows
from harness.history.event import Call, Change, Event, In, Res
from harness.history.values import brief
from harness.judge.pitfalls.not_its_row import are_rows, find_not_its_row
from harness.scenario.model import Scenario
from harness.scenario.order import Order
from harness.scenario.plan import Expected, JudgedValues
from harness.scenario.workloads.lookups import (
    CustomerRows,
    Inputs,
    LookupSource,
    changing_keys,
    records_of_all,
)
from harness.scenario.workloads.sessions import session_stamps
from harness.scenario.workloads.shape import Key, Lookup, OwnLookup, StampedLookup, key_of, told_key
from harness.sut.calm_twin import ALL_S, ASKED_MAX, CALL_S, Question, Questions
from harness.sut.registry import load_attribute
from harness.sut.user_lookup import OF_KEY, observing
from harness.system.choices import Choices
from harness.system.clock import monotonic_us
from harness.system.errors import SutError
from harness.system.json_types import JsonView

_T = TypeVar("_T")

Versions = Sequence[Sequence[Mapping[str, Any]]]
"""The rows of one key, by version."""


def with_versions(
    events: Sequence[Event], *, scenario: Scenario, rows: Sequence[list[object]], keys: Collection[Key]
) -> Sequence[Event]:
    """`events`, in which each final `ok` of a record of `keys` has the version that it shows, if it shows any.

    The events themselves if several faults change rows, whose versions nobody can number before.
    """
    if len(scenario.changing) != 1 or not keys:
        return events
    changes = _Changes(event for event in events if isinstance(event, Change))
    (fault,) = scenario.changing
    by_key = {
        key: [_at_version(found, version, fault) for version in range(changes.highest + 1)]
        for key, found in CustomerRows(rows).by_key(keys).items()
    }
    return list(_told(events, by_key, changes))


def _at_version(
    rows: Sequence[Mapping[str, Any]], version: int, fault: ChangeRows
) -> list[dict[str, object]]:
    """The rows after so many changes; with `how: delete` every second one takes them away."""
    if fault.how == "delete":
        if version % 2:
            return []
        return [{**row, "tier": row["tier"] + version // 2, "ver": version} for row in rows]
    return [{**row, "tier": row["tier"] + version, "ver": version} for row in rows]


def _told(events: Iterable[Event], by_key: Mapping[Key, Versions], changes: _Changes) -> Iterable[Event]:
    key_of_record: dict[Any, Key] = {}
    calls: dict[tuple[int, int, Any, int], int] = {}
    for event in events:
        if isinstance(event, In):
            key_of_record[event.id] = key_of(event.key)
        elif isinstance(event, Call):
            calls[event.s, event.a, event.id, event.try_] = event.n
        elif isinstance(event, Res) and event.final and event.r == "ok" and event.v is not UNSET:
            called = calls.get((event.s, event.a, event.id, event.try_))
            key = key_of_record.get(event.id)
            if called is not None and key is not None and key in by_key:
                version = changes.shown(key, event.v, by_key[key], called=called, answered=event.n)
                yield event if version is None else replace(event, ver=version)
                continue
        yield event


class _Changes:
    """When each version of a key began and was complete, by event number."""

    def __init__(self, changes: Iterable[Change]) -> None:
        self._at: dict[tuple[str, Key, int], int] = {}
        self.highest = 0
        for change in changes:
            self._at[change.phase, key_of(change.key), change.ver] = change.n
            self.highest = max(self.highest, change.ver)

    def shown(
        self, key: Key, results: Sequence[object], versions: Versions, *, called: int, answered: int
    ) -> int | None:
        """The version that the results show: one that was in force during the call, if there is one; None: none."""
        alike = [version for version, rows in enumerate(versions) if are_rows(results, rows)]
        begins = {version: self._at.get(("begin", key, version), float("inf")) for version in alike}
        begun = [version for version, begin in begins.items() if not version or begin < answered]
        current = [version for version in begun if not self._is_over(key, version, called)]
        return next((found[-1] for found in (current, begun, alike) if found), None)

    def _is_over(self, key: Key, version: int, called: int) -> bool:
        """Whether a higher version was complete before the call."""
        later = range(version + 1, self.highest + 1)
        return any(self._at.get(("end", key, after), called) < called for after in later)


Ask = Callable[[Questions], Iterable[JsonView]]
"""Asks the twin in a process of its own, and gives its lines; the last one is `end`, or `gone` with `why`."""


class RowsOfKeys(Protocol):
    """A looked-up table, or several."""

    def by_key(self, keys: Iterable[Key]) -> Mapping[Any, Sequence[Mapping[str, Any]]]:
        """The rows of `keys`, with all their columns; keys without rows are left out."""

    def whole(self) -> Iterable[Mapping[str, object]] | None:
        """Every row of table `customer`; None: the tables are the user's own."""


NO_VALUES: Final = "none"
"""`--expected none`: values are not judged."""


def find_expected(
    order: Order, rows: Sequence[list[Any]], *, ask: Ask, own: RowsOfKeys | None = None
) -> tuple[Expected, JudgedValues]:
    """What the records of the order must yield.

    `rows`: those of table `customer`; `own`: those of the user's own tables, if the lookup reads these.

    Raises SutError if `expected` cannot be used, or if the function fails for every key without any fault.
    """
    if order.expected == NO_VALUES:
        says = "Values are not judged, because of `--expected none`."
        return Expected(source="none"), JudgedValues(says=says)
    changing = changing_keys(order.scenario, rows)
    records = list(_asked(order))
    began_us = monotonic_us()
    name = given_by(order)
    if name is not None:
        expected = _given(
            name, [record for record in records if record.key not in changing], own or CustomerRows(rows)
        )
        says = f"The expected results are those of `{name}`."
        return expected, JudgedValues(says=says, took_s=(monotonic_us() - began_us) / 1e6)
    questions = questions_of(order, records)
    report = _Report.of(ask(questions))
    return report.concluded(
        questions,
        of={"key": len(dict.fromkeys(record.key for record in records)), "record": len(records)},
        table=own or CustomerRows(rows),
        changing=changing,
        took_s=(monotonic_us() - began_us) / 1e6,
    )


def given_by(order: Order) -> str | None:
    """The order's `module:function` that states the results, else `expected` of the lookup's module; None: neither."""
    if order.expected is not None:
        return order.expected
    module, _, _ = order.sut.partition(":")
    load_attribute(order.sut, option="--sut", kind="FUNCTION")
    return f"{module}:expected" if callable(getattr(sys.modules[module], "expected", None)) else None


def _asked(order: Order) -> Iterator[Lookup]:
    """The records of all subtasks, as the function gets them."""
    scenario = order.scenario
    own = scenario.own_records
    if scenario.rescales:
        yield from (record for record, _ in records_of_all(scenario.workload, seed=order.seed))
        return
    for subtask in range(scenario.workload.subtasks):
        source = LookupSource(
            workload=scenario.workload, seed=order.seed, subtask=subtask, faults=scenario.faults, own=own
        )
        stamps: Mapping[int, Any] = {}
        if scenario.task is not None:
            inputs = Inputs(scenario.task, source, seed=order.seed, subtask=subtask)
            stamps = session_stamps(source, inputs, task=scenario.task)
        for record, _ in source.records:
            if (stamp := stamps.get(record.id)) is None:
                yield record
                continue
            fields = {name: getattr(record, name) for name in record.__struct_fields__}
            counts = {name: count for name, count in stamp.items() if name != "late"}
            yield StampedLookup(**fields, stamp=counts)


# ------------------------------------------------------------------------------------------------- expected


def _given(name: str, records: Sequence[Lookup], table: RowsOfKeys) -> Expected:
    """The function's answers by key, or by whole record if it reads more than the key."""
    function = load_attribute(name, option="--expected", kind="FUNCTION")
    of_key = table.by_key(record.key for record in records)
    read: set[str] = set()
    kinds = {kind: observing(kind, read) for kind in (Lookup, OwnLookup, StampedLookup)}

    def results(record: Lookup) -> list[object]:
        fields = {field: getattr(record, field) for field in record.__struct_fields__}
        return _stated(name, function, kinds[type(record)](**fields), list(of_key.get(record.key, ())))

    firsts = {record.key: record for record in reversed(records)}
    of_keys = [(told_key(record.key), results(record)) for record in firsts.values()]
    if read <= OF_KEY:
        return Expected(source="given", by_key=True, of_keys=of_keys)
    return Expected(source="given", of_records=[(record.id, results(record)) for record in records])


def _stated(
    name: str, function: Callable[[Lookup, list[object]], object], record: Lookup, rows: list[object]
) -> list[object]:
    """What the function states for a record. Raises SutError, with the line to write, if it is no list of JSON."""
    try:
        with redirect_stdout(sys.stderr):  # standard output is for the results of a command
            stated = function(record, rows)
        told: Any = json.loads(json.dumps(stated, allow_nan=False))
        why = "" if isinstance(told, list) else f"it returned {type(stated).__name__}"
    except (Exception, SystemExit) as error:  # noqa: BLE001 - any error is the function's
        why = f"{type(error).__name__}: {error}"
    if why:
        fix = "write `def expected(record, rows): ...`, synchronous, which returns a list of JSON values"
        raise SutError(f"--expected {name} fails for record {record.id}: {why}", fix=fix)
    return list(told)


# -------------------------------------------------------------------------------------------- the calm twin


def questions_of(order: Order, records: Sequence[Lookup]) -> Questions:
    """What the twin is asked: distinct keys and records in an order drawn by the seed, at most `ASKED_MAX` of each."""
    of_keys: dict[Key, list[Lookup]] = {}
    for record in records:
        of_keys.setdefault(record.key, []).append(record)
    return Questions(
        sut=order.sut,
        seed=order.seed,
        connections=order.scenario.operator.pool_size,
        keys=[_question(same[0], same[-1]) for same in _sample(list(of_keys.values()), seed=order.seed)],
        records=[_question(record, record) for record in _sample(records, seed=order.seed)],
        path=list(order.import_path),
    )


def _question(record: Lookup, other: Lookup) -> Question:
    return Question(record=record.as_json(), other=other.as_json())


def _sample(things: Sequence[_T], *, seed: int) -> list[_T]:
    draw = Choices(seed, "calm twin: sample")
    places = list(range(len(things)))
    wanted = min(ASKED_MAX, len(things))
    for place in range(wanted):  # the beginning of a shuffle
        other = draw.between(place, len(places) - 1)
        places[place], places[other] = places[other], places[place]
    return [things[place] for place in places[:wanted]]


@dataclass(slots=True, kw_only=True)
class _Report:
    """What the twin's lines say. Mutable while they are read."""

    what: str = "key"
    answers: list[Mapping[str, Any]] = field(default_factory=list)
    failed: list[Mapping[str, Any]] = field(default_factory=list)
    late: list[Mapping[str, Any]] = field(default_factory=list)
    differs: Mapping[str, Any] | None = None
    gone: str = ""
    calls: int = 0

    @classmethod
    def of(cls, lines: Iterable[JsonView]) -> _Report:
        """Raises SutError if the function breaks a rule."""
        report = cls()
        for line in lines:
            match line["k"]:
                case "pass":
                    report = cls(what=line["what"])
                case "answer":
                    report.answers.append(line)
                case "failed":
                    report.failed.append(line)
                case "late":
                    report.late.append(line)
                case "differs":
                    report.differs = line
                case "refused":
                    raise SutError(line["what"], fix=line["fix"])
                case "gone":
                    report.gone = line["why"]
                case "end":
                    report.calls = line["calls"]
        return report

    def concluded(
        self,
        questions: Questions,
        *,
        of: Mapping[str, int],
        table: RowsOfKeys,
        changing: Collection[Key],
        took_s: float,
    ) -> tuple[Expected, JudgedValues]:
        """Raises SutError if there is no answer at all, though the twin was asked. `of`: how many keys and records."""
        asked = questions.keys if self.what == "key" else questions.records
        if asked and not self.answers:
            fix = _CORRECT if self.failed else _ALONE
            raise SutError(f"your function fails without any fault: {self._no_answer()}", fix=fix)
        by_key = self.what == "key"
        firsts = {key_of(line["key"]): (line["key"], line["v"]) for line in reversed(self.answers)}
        seen = JudgedValues(
            says=self._says(of["key" if by_key else "record"], has_changing=bool(changing)),
            took_s=took_s,
            calls=self.calls,
            threats=tuple(self._threats(len(asked))),
            pitfalls=()
            if self.differs
            else find_not_its_row(list(firsts.values()), rows=table.by_key(firsts), whole=table.whole()),
            rows_of=() if self.differs else tuple(self._rows_of(table, changing)),
        )
        if self.differs is not None:
            return Expected(source="calm"), seen
        nothing = [line for line in self.failed if line["sure"]]
        sure = [*self.answers, *({**line, "v": []} for line in nothing)]
        told = [line for line in sure if key_of(line["key"]) not in changing]
        if by_key:
            return Expected(source="calm", by_key=True, of_keys=[(x["key"], x["v"]) for x in told]), seen
        return Expected(source="calm", of_records=[(x["id"], x["v"]) for x in told]), seen

    def _rows_of(self, table: RowsOfKeys, changing: Container[Key]) -> Iterator[Key]:
        """The changing keys whose answers are the rows of before."""
        asked = [line for line in self.answers if key_of(line["key"]) in changing]
        rows = table.by_key(key_of(line["key"]) for line in asked)
        for line in asked:
            key = key_of(line["key"])
            if are_rows(line["v"], rows.get(key, ())):
                yield key

    def _no_answer(self) -> str:
        if self.failed:
            first = self.failed[0]
            return f"{first['error']} for record {first['id']}, as for all others"
        if self.late:
            return f"no call ended within {CALL_S:g} s, the first one for record {self.late[0]['id']}"
        return self.gone or "it gave no answer"

    def _says(self, of: int, *, has_changing: bool) -> str:
        if self.differs is not None:
            key, one, other = (brief(self.differs[name]) for name in ("key", "one", "other"))
            return (
                f"The function is not deterministic, so its values are not judged: for key {key} it returned {one}, "
                f"and asked again, without any fault, {other}."
            )
        names = "keys" if self.what == "key" else "records"
        judged = f"{len(self.answers)} of {of} {names}"
        if len(self.answers) + len(self.failed) + len(self.late) < of:
            judged += f", drawn by the seed: at most {ASKED_MAX}, in {ALL_S:g} s"
        if has_changing:
            judged += "; those that a fault changes are judged by the versions of their rows"
        return f"The expected results are what the function returned before the run, without faults: {judged}"

    def _threats(self, asked: int) -> Iterator[str]:
        what = "key" if self.what == "key" else "id"
        name = "key" if what == "key" else "record"
        if self.failed:
            first = self.failed[0]
            yield (
                f"Without any fault the function failed for {len(self.failed)} of {asked} {name}s, which are expected "
                f"to yield nothing; the first: {name} {brief(first[what])}: {first['error']}"
            )
        if self.late:
            yield (
                f"Without any fault a call for {name} {brief(self.late[0][what])} did not end within {CALL_S:g} s; "
                "no result is expected of its records."
            )
        if self.gone:
            yield f"Before the run the function was not asked for all {name}s: {self.gone}."


_CORRECT: Final = (
    "correct it there: it must fit the table, and `record.key`, a tuple if keys have several parts"
)
_ALONE: Final = (
    "call it alone, once, against the same table; `expected(record, rows)` can state its results instead"
)
