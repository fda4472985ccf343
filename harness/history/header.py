"""The header of a history: the operator's configuration and claims, its sink, bounds and expectations.

Implements "Header" of `docs/reference/history.md`, with its defaults. Invariant: a `Header` from `parse_header` keeps
every rule of that section; None means that an optional field was absent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from decimal import Decimal
from typing import Any, Literal, NamedTuple, cast

from msgspec import UNSET

from harness.history.event import Res
from harness.history.values import shown
from harness.history.verdict import INVARIANTS, NOT_ON_A_HISTORY

VERSION = 1
"""The version of the format."""

Mode = Literal["ordered", "unordered"]
Sink = Literal["rollback", "append", "atomic", "two-phase"]
Effects = Literal["records", "outputs"]
Policy = Literal["fail", "dead"]
TimeoutPolicy = Literal["fail", "dead", "substitute"]
Holding = Literal["outputs", "effects", "dead", "audit"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """The retry strategy: claims the part of V15 that judges retries."""

    backoff: Literal["fixed", "exponential"]
    initial_ms: int
    multiplier: int | float | Decimal | None = None
    """None with `fixed`. `Decimal(str(multiplier))` is the decimal that is written in the file.

    `read` gives a Decimal only if no float has that decimal as its shortest text.
    """
    max_ms: int | None = None
    """None: no limit, or `fixed`."""
    slack_ms: int = 0
    on: tuple[Literal["fail", "unknown", "empty"], ...] = ("fail",)
    """The outcomes that are retried; `empty` is an `ok` whose `v` is `[]`."""
    at_end: Literal["once", "same"] = "once"
    profile: Literal["strict", "flink"] = "strict"

    def retries(self, res: Res) -> bool:
        """Whether the strategy retries this outcome: its own `retry` says so, else `on`."""
        if res.r == "timeout":
            return False
        if res.retry is not UNSET:
            return res.retry
        return res.r in self.on or ("empty" in self.on and res.r == "ok" and res.v == [])


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table that is read after the run."""

    holds: tuple[Holding, ...]
    keep: Literal["all", "first", "last"] = "all"
    """What the table keeps of several writes of one (`id`, `j`)."""
    ordered: bool = False
    """Whether the rows' `seq` is the order of writing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorHeader:
    """The configuration of the operator, and what it claims."""

    mode: Mode
    capacity: int
    timeout_ms: int
    """0: no timeout."""
    max_tries: int = 1
    watermark_slots: bool = True
    """Whether a watermark takes a slot of the capacity."""
    coalesces_watermarks: bool = False
    per_key_order: bool = False
    """Whether an unordered operator claims to keep the order of each key."""
    retry: Retry | None = None
    on_error: Policy | None = None
    """Read by V24 only, as `on_timeout`."""
    on_timeout: TimeoutPolicy | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Time limits in ms; None: not claimed."""

    watermark_hold: int | None = None
    timeout_slack: int = 0
    recover: int = 0
    checkpoint_gap: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Expects:
    """Minimum counts that a run must reach, else V23 is vacuous."""

    records: int | None = None
    checkpoints: int | None = None
    restores: int | None = None
    rescales: int | None = None
    faults: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """Line 1 of a history."""

    operator: OperatorHeader
    history: int = VERSION
    sink: Sink = "rollback"
    effects: Effects | None = None
    fenced: bool = True
    bounds: Bounds = field(default_factory=Bounds)
    expects: Expects | None = None
    decisive: tuple[str, ...] | None = None
    tables: Mapping[str, Table] | None = None
    """The tables that are read after the run, by name."""
    explained: Literal["alone", "together"] | None = None
    """Claims that the history names whatever could make an attempt fail (V24)."""
    expect_from: Literal["given", "calm", "none"] | None = None
    by_key: bool = False
    """Claims that a record's results depend only on its key and on the looked-up table."""
    versions: bool = False
    """Claims that a `change` reports every change of the looked-up table."""
    run: Any = None


Complaint = str


class HeaderField(NamedTuple):
    """A type of field: the test of a value, the name for messages, and the JSON Schema."""

    holds: Callable[[Any], bool]
    name: str
    schema: Mapping[str, Any]


def whole_from(low: int) -> HeaderField:
    """The type of an integer of at least `low`."""
    return HeaderField(
        lambda value: type(value) is int and value >= low,
        f"an integer of at least {low}",
        {"type": "integer", "minimum": low},
    )


def word_of(*names: str) -> HeaderField:
    """The type of a string that is one of `names`."""
    said = "one of " + ", ".join(f'"{name}"' for name in names)
    return HeaderField(lambda value: isinstance(value, str) and value in names, said, {"enum": list(names)})


def is_names(value: object) -> bool:
    """Whether a value is a list of strings."""
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


FLAG = HeaderField(lambda value: isinstance(value, bool), "true or false", {"type": "boolean"})
_NUMBER_FROM_1 = HeaderField(
    lambda value: type(value) in {int, float, Decimal} and value >= 1,
    "a number of at least 1",
    {"type": "number", "minimum": 1},
)
NAMES = HeaderField(is_names, "a list of names", {"type": "array", "items": {"type": "string"}})
JUDGED = HeaderField(is_names, "a list of names", {"type": "array", "items": {"enum": list(INVARIANTS)}})
OBJECT = HeaderField(lambda value: isinstance(value, dict), "an object", {"type": "object"})
THIS_VERSION = HeaderField(
    lambda value: type(value) is int and value == VERSION,
    f"{VERSION}, the version of this format",
    {"const": VERSION},
)
ANYTHING = HeaderField(lambda _: True, "any JSON", {})
_RETRIED = ("fail", "unknown", "empty")
_HOLDINGS: tuple[tuple[Holding, ...], ...] = (
    ("outputs",),
    ("effects",),
    ("outputs", "effects"),
    ("dead",),
    ("audit",),
)
"""What one table may hold, in any order."""


_ON = HeaderField(
    lambda value: is_names(value) and len(set(value)) == len(value) and set(value) <= set(_RETRIED),
    'a list of "fail", "unknown" and "empty", none twice',
    {"type": "array", "items": {"enum": list(_RETRIED)}, "uniqueItems": True},
)
_HOLDS = HeaderField(
    lambda value: is_names(value) and sorted(value) in map(sorted, _HOLDINGS),
    'a list of "outputs", "effects" or both, or of "dead" or "audit" alone',
    {"enum": [list(words) for words in (*_HOLDINGS, ("effects", "outputs"))]},
)

_OPERATOR: Mapping[str, HeaderField] = {
    "mode": word_of("ordered", "unordered"),
    "capacity": whole_from(1),
    "timeout_ms": whole_from(0),
    "max_tries": whole_from(1),
    "watermark_slots": FLAG,
    "coalesces_watermarks": FLAG,
    "per_key_order": FLAG,
    "retry": OBJECT,
    "on_error": word_of("fail", "dead"),
    "on_timeout": word_of("fail", "dead", "substitute"),
}
_RETRY: Mapping[str, HeaderField] = {
    "backoff": word_of("fixed", "exponential"),
    "initial_ms": whole_from(0),
    "multiplier": _NUMBER_FROM_1,
    "max_ms": whole_from(0),
    "slack_ms": whole_from(0),
    "on": _ON,
    "at_end": word_of("once", "same"),
    "profile": word_of("strict", "flink"),
}
_TABLE: Mapping[str, HeaderField] = {
    "holds": _HOLDS,
    "keep": word_of("all", "first", "last"),
    "ordered": FLAG,
}
_BOUNDS: Mapping[str, HeaderField] = {bound.name: whole_from(0) for bound in fields(Bounds)}
_EXPECTS: Mapping[str, HeaderField] = {
    "records": whole_from(0),
    "checkpoints": whole_from(0),
    "restores": whole_from(0),
    "rescales": whole_from(0),
    "faults": NAMES,
}
_TOP: Mapping[str, HeaderField] = {
    "history": THIS_VERSION,
    "operator": OBJECT,
    "sink": word_of("rollback", "append", "atomic", "two-phase"),
    "effects": word_of("records", "outputs"),
    "fenced": FLAG,
    "bounds": OBJECT,
    "expects": OBJECT,
    "decisive": JUDGED,
    "tables": OBJECT,
    "explained": word_of("alone", "together"),
    "expect_from": word_of("given", "calm", "none"),
    "by_key": FLAG,
    "versions": FLAG,
    "run": ANYTHING,
}
HeaderParts = Mapping[str, tuple[Mapping[str, HeaderField], tuple[str, ...]]]
"""For each object in a header its fields, and which of them are required."""
_PARTS: HeaderParts = {
    "operator": (_OPERATOR, ("mode", "capacity", "timeout_ms")),
    "bounds": (_BOUNDS, ()),
    "expects": (_EXPECTS, ()),
}
_REQUIRED = ("history", "operator")
_RETRY_REQUIRED = ("backoff", "initial_ms")
_EXPONENTIAL_ONLY = ("multiplier", "max_ms")
_TABLE_REQUIRED = ("holds",)


def parse_header(given: Mapping[str, Any]) -> Header | list[Complaint]:
    """The header that the object of line 1 describes, or the list of everything wrong with it."""
    if type(version := given.get("history")) is int and version != VERSION:
        # The other fields of another version cannot be judged.
        return [f"the history is of version {version}; only version {VERSION} can be read"]
    complaints = list(_complaints(given))
    if complaints:
        return complaints
    values = dict(given)
    operator = dict(given["operator"])
    if "retry" in operator:
        on = {"on": tuple(operator["retry"]["on"])} if "on" in operator["retry"] else {}
        operator["retry"] = Retry(**{**operator["retry"], **on})
    values["operator"] = OperatorHeader(**operator)
    if "bounds" in given:
        values["bounds"] = Bounds(**given["bounds"])
    if "expects" in given:
        faults = tuple(given["expects"].get("faults", ()))
        values["expects"] = Expects(**{**given["expects"], "faults": faults})
    if "decisive" in given:
        values["decisive"] = tuple(given["decisive"])
    if "tables" in given:
        values["tables"] = {
            name: Table(**{**table, "holds": tuple(table["holds"])})
            for name, table in given["tables"].items()
        }
    return Header(**values)


def _complaints(given: Mapping[str, object]) -> Iterator[Complaint]:
    yield from header_complaints(given, _TOP, _REQUIRED, _PARTS)
    if isinstance(operator := given.get("operator"), dict) and isinstance(
        retry := operator.get("retry"), dict
    ):
        yield from _retry(retry)
    if isinstance(tables := given.get("tables"), dict):
        yield from _tables(tables, given)
    if is_names(decisive := given.get("decisive")):
        yield from unjudged(cast("list[str]", decisive))


def header_complaints(
    given: Mapping[str, object],
    top: Mapping[str, HeaderField],
    top_required: tuple[str, ...],
    parts: HeaderParts,
) -> Iterator[Complaint]:
    """What is wrong with the fields of a header and of its `parts`."""
    yield from part_complaints(given, top, required=top_required, place="the header")
    for name, (checks, required) in parts.items():
        if isinstance(part := given.get(name), dict):
            yield from part_complaints(part, checks, required=required, place=f"`{name}` of the header")


def part_complaints(
    given: Mapping[str, object], checks: Mapping[str, HeaderField], *, required: tuple[str, ...], place: str
) -> Iterator[Complaint]:
    """What is wrong with the fields of one object of the header."""
    for name in required:
        if name not in given:
            yield f"{place} lacks `{name}`"
    for name, value in given.items():
        if name not in checks:
            yield f"{place} has an unknown field {shown(name)}; known are {', '.join(checks)}"
        elif not checks[name].holds(value):
            yield f"`{name}` in {place} is {shown(value)}, but must be {checks[name].name}"


def _retry(retry: Mapping[str, object]) -> Iterator[Complaint]:
    yield from part_complaints(
        retry, _RETRY, required=_RETRY_REQUIRED, place="`operator.retry` of the header"
    )
    if retry.get("backoff") == "exponential" and "multiplier" not in retry:
        yield "`operator.retry` of the header lacks `multiplier`, which an exponential backoff has"
    for name in _EXPONENTIAL_ONLY:
        if retry.get("backoff") == "fixed" and name in retry:
            yield f"`operator.retry` of the header has `{name}`, which a fixed backoff has not"


def _tables(tables: Mapping[str, object], header: Mapping[str, object]) -> Iterator[Complaint]:
    audits: list[str] = []
    for name, table in tables.items():
        place = f"the table {shown(name)} of the header"
        if not isinstance(table, dict):
            yield f"{place} is {shown(table)}, but must be an object"
            continue
        yield from part_complaints(table, _TABLE, required=_TABLE_REQUIRED, place=place)
        holds: Any = table.get("holds")
        if _HOLDS.holds(holds):
            yield from _kept(table, set(holds), header, place)
            if "audit" in holds:
                audits.append(name)
    if len(audits) > 1:
        yield f"{len(audits)} tables of the header hold the audit ({', '.join(map(shown, audits))}); one may"


def _kept(
    table: Mapping[str, object], holds: set[str], header: Mapping[str, object], place: str
) -> Iterator[Complaint]:
    """The breaches between what a table holds and its other fields or those of the header."""
    if holds == {"outputs", "effects"} and header.get("effects") != "outputs":
        yield f'{place} holds outputs and effects, so `effects` of the header must be "outputs"'
    if holds == {"audit"}:
        for name in ("keep", "ordered"):
            if name in table:
                yield f"{place} holds the audit, so it has no `{name}`"
        return
    keep = table.get("keep", "all")
    if "outputs" in holds and keep in ("first", "last") and header.get("sink", "rollback") != "rollback":
        yield f'{place} keeps the {keep} write of a key, so `sink` of the header must be "rollback"'
    if table.get("ordered") is True and ("outputs" not in holds or keep != "all"):
        yield f'{place} is ordered, so it must hold outputs and keep "all"'


def unjudged(decisive: list[str]) -> Iterator[Complaint]:
    """The names in `decisive` that are no invariants of a history."""
    for name in decisive:
        if name in NOT_ON_A_HISTORY:
            yield f"`decisive` names {name}, which no history is judged by: {NOT_ON_A_HISTORY[name]}"
        elif name not in INVARIANTS:
            yield f"`decisive` names {shown(name)}, which is no invariant; known are {', '.join(INVARIANTS)}"


def header_schema() -> dict[str, Any]:
    """The JSON Schema of line 1."""
    whole = schema_of_parts(_TOP, _REQUIRED, _PARTS)
    fixed = {name: check for name, check in _RETRY.items() if name not in _EXPONENTIAL_ONLY}
    whole["properties"]["operator"]["properties"]["retry"] = {
        "oneOf": [
            object_schema({**fixed, "backoff": word_of("fixed")}, _RETRY_REQUIRED),
            object_schema({**_RETRY, "backoff": word_of("exponential")}, (*_RETRY_REQUIRED, "multiplier")),
        ]
    }
    whole["properties"]["tables"] = {"type": "object", "additionalProperties": _table_schema()}
    return whole


def schema_of_parts(
    top: Mapping[str, HeaderField], top_required: tuple[str, ...], parts: HeaderParts
) -> dict[str, Any]:
    """The JSON Schema of a header and of its `parts`."""
    whole = object_schema(top, top_required)
    for name, (checks, required) in parts.items():
        whole["properties"][name] = object_schema(checks, required)
    return whole


def _table_schema() -> dict[str, Any]:
    """Without the rules between a table and the rest of the header."""
    written = [list(words) for words in (*_HOLDINGS, ("effects", "outputs"))]
    rows = {"enum": [words for words in written if "audit" not in words]}
    outputs = {"enum": [words for words in written if "outputs" in words]}
    whole = object_schema(_TABLE, _TABLE_REQUIRED)
    return {
        "anyOf": [
            object_schema({"holds": _HOLDS._replace(schema={"const": ["audit"]})}, _TABLE_REQUIRED),
            whole | {"properties": {**whole["properties"], "holds": rows, "ordered": {"const": False}}},
            whole | {"properties": {**whole["properties"], "holds": outputs, "keep": {"const": "all"}}},
        ]
    }


def object_schema(checks: Mapping[str, HeaderField], required: tuple[str, ...]) -> dict[str, Any]:
    """The JSON Schema of one object of the header."""
    named = {"required": list(required)} if required else {}
    properties = {name: check.schema for name, check in checks.items()}
    return {"type": "object", **named, "properties": properties, "additionalProperties": False}


def header_json(header: Header) -> dict[str, Any]:
    """The object of line 1; fields equal to their defaults are left out."""
    given: dict[str, Any] = {"history": header.history, "operator": fields_given(header.operator)}
    given |= {name: value for name, value in fields_given(header).items() if name not in given}
    if header.bounds != Bounds():
        given["bounds"] = fields_given(header.bounds)
    else:
        given.pop("bounds", None)
    if header.expects is not None:
        given["expects"] = fields_given(header.expects)
    if header.operator.retry is not None:
        given["operator"]["retry"] = fields_given(header.operator.retry)
    if header.tables is not None:
        given["tables"] = {name: fields_given(table) for name, table in header.tables.items()}
    return given


def fields_given(part: Any) -> dict[str, Any]:
    """The fields of a header, or of a part of it (any dataclass), that differ from their defaults."""
    pairs = ((item.name, getattr(part, item.name), item.default) for item in fields(part))
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, value, default in pairs
        if value != default
    }
