"""The header of a history: the operator's configuration and claims, its sink, bounds and expectations.

Implements "Header" of `docs/reference/history.md`, with its defaults. Invariant: a `Header` from `parse_header` keeps
every rule of that section; None means that an optional field was absent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, field, fields, is_dataclass
from decimal import Decimal
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin

from msgspec import UNSET, Meta

from harness.history.event import AtLeast0, AtLeast1, Res
from harness.history.fields import fields_of
from harness.history.invariants import INVARIANTS, NOT_ON_A_HISTORY
from harness.history.values import shown
from harness.system.json_types import Json

VERSION = 1
"""The version of the format."""

Mode = Literal["ordered", "unordered"]
Sink = Literal["rollback", "append", "atomic", "two-phase"]
Effects = Literal["records", "outputs"]
Policy = Literal["fail", "dead"]
TimeoutPolicy = Literal["fail", "dead", "substitute"]
Holding = Literal["outputs", "effects", "dead", "audit"]
_HOLDINGS = [["outputs"], ["effects"], ["outputs", "effects"], ["dead"], ["audit"], ["effects", "outputs"]]
"""What one table may hold."""
Version = Annotated[
    int,
    Meta(
        description=f"{VERSION}, the version of this format",
        extra_json_schema={"const": VERSION},
        extra={"required": True, "holds": lambda value: value == VERSION},
    ),
]
_Multiplier = Annotated[
    int | float | Decimal,
    Meta(
        description="a number of at least 1",
        extra_json_schema={"type": "number", "minimum": 1},
        extra={"holds": lambda value: value >= 1},
    ),
]
_Retried = Annotated[
    tuple[Literal["fail", "unknown", "empty"], ...],
    Meta(
        description='a list of "fail", "unknown" and "empty", none twice',
        extra_json_schema={
            "type": "array",
            "items": {"enum": ["fail", "unknown", "empty"]},
            "uniqueItems": True,
        },
        extra={"holds": lambda value: len(set(value)) == len(value)},
    ),
]
_Holds = Annotated[
    tuple[Holding, ...],
    Meta(
        description='a list of "outputs", "effects" or both, or of "dead" or "audit" alone',
        extra_json_schema={"enum": _HOLDINGS},
        extra={"holds": lambda value: value in _HOLDINGS},
    ),
]
JUDGED = {"type": "array", "items": {"enum": list(INVARIANTS)}}
"""The schema of a list of invariants."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retry:
    """The retry strategy: claims the part of V15 that judges retries."""

    backoff: Literal["fixed", "exponential"]
    initial_ms: AtLeast0
    multiplier: _Multiplier | None = None
    """None with `fixed`. `Decimal(str(multiplier))` is the decimal that is written in the file.

    `read` gives a Decimal only if no float has that decimal as its shortest text.
    """
    max_ms: AtLeast0 | None = None
    """None: no limit, or `fixed`."""
    slack_ms: AtLeast0 = 0
    on: _Retried = ("fail",)
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

    holds: _Holds
    keep: Literal["all", "first", "last"] = "all"
    """What the table keeps of several writes of one (`id`, `j`)."""
    ordered: bool = False
    """Whether the rows' `seq` is the order of writing."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorHeader:
    """The configuration of the operator, and what it claims."""

    mode: Mode
    capacity: AtLeast1
    timeout_ms: AtLeast0
    """0: no timeout."""
    max_tries: AtLeast1 = 1
    watermark_slots: bool = True
    """Whether a watermark takes a slot of the capacity."""
    coalesces_watermarks: bool = False
    per_key_order: bool = False
    """Whether an unordered operator claims to keep the order of each key."""
    retry: Retry | None = None
    on_error: Policy | None = None
    """The policy for a record whose last call failed; V20 and V24 read it, as `on_timeout`."""
    on_timeout: TimeoutPolicy | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bounds:
    """Time limits in ms; None: not claimed."""

    watermark_hold: AtLeast0 | None = None
    timeout_slack: AtLeast0 = 0
    timer_resolution: AtLeast0 = 1
    """How much too early a timer may fire (V15): one that counts whole milliseconds, on a clock of microseconds."""
    recover: AtLeast0 = 0
    checkpoint_gap: AtLeast0 | None = None
    service_after: AtLeast0 | None = None
    """After the last fault, the time from which most outcomes must be answers again (V16)."""
    unserved: AtLeast1 = 25
    """How many per cent of those outcomes may be failures and timeouts all the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Expects:
    """Minimum counts that a run must reach, else V23 is vacuous."""

    records: AtLeast0 | None = None
    checkpoints: AtLeast0 | None = None
    restores: AtLeast0 | None = None
    rescales: AtLeast0 | None = None
    faults: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """Line 1 of a history."""

    history: Version = VERSION
    operator: OperatorHeader
    sink: Sink = "rollback"
    effects: Effects | None = None
    fenced: bool = True
    bounds: Bounds = field(default_factory=Bounds)
    expects: Expects | None = None
    decisive: Annotated[tuple[str, ...], Meta(extra_json_schema=JUDGED)] | None = None
    tables: Mapping[str, Table] | None = None
    """The tables that are read after the run, by name."""
    explained: Literal["alone", "together"] | None = None
    """Claims that the history names whatever could make an attempt fail (V24)."""
    expect_from: Literal["given", "calm", "none"] | None = None
    by_key: bool = False
    """Claims that a record's results depend only on its key and on the looked-up table."""
    versions: bool = False
    """Claims that a `change` reports every change of the looked-up table."""
    raised: bool = False
    """Claims that each `res` has in `raised` the error with which its call, or its timeout handler, ended."""
    substitute: tuple[Any, ...] | None = None
    """What a timeout yields, with `on_timeout` `substitute`."""
    barrier_every: AtLeast1 | None = None
    """Claims that a barrier stands in front of every so many positions of a source, which each attempt obeys (V18)."""
    keeps: AtLeast1 | None = None
    """Claims that a restart goes on from one of so many newest completed checkpoints, which are not retired (V11)."""
    fixed_source: bool = False
    """Claims that the source is deterministic: who reads it otherwise than before breaks V10, not the format."""
    run: Any = None


_EXPONENTIAL_ONLY = ("multiplier", "max_ms")
_H = TypeVar("_H")


def parse_header(given: Mapping[str, object]) -> Header | list[str]:
    """The header that the object of line 1 describes, or the list of everything wrong with it."""
    return parsed(Header, given, _between)


def parsed(
    kind: type[_H],
    given: Mapping[str, object],
    between: Callable[[Mapping[str, object]], Iterable[str]] = lambda _: (),
) -> _H | list[str]:
    """The header of either view, or everything wrong with it; `between`: complaints about several fields."""
    if type(version := given.get("history")) is int and version != VERSION:
        # The other fields of another version cannot be judged.
        return [f"the history is of version {shown(version)}; only version {VERSION} can be read"]
    whole: type = kind
    complaints = list(_complaints(whole, given, "the header"))
    for name, known in fields_of(whole).items():
        if known.part is not None and isinstance(inner := given.get(name), dict):
            complaints += _complaints(known.part, inner, f"`{name}` of the header")
    complaints += [*between(given), *_unjudged(given.get("decisive"))]
    return complaints or _built(kind, given)


def _complaints(kind: type, given: Mapping[str, object], place: str) -> Iterator[str]:
    """What is wrong with the fields of one object of the header."""
    known = fields_of(kind)
    for name, part in known.items():
        if part.required and name not in given:
            yield f"{place} lacks `{name}`"
    for name, value in given.items():
        if name not in known:
            yield f"{place} has an unknown field {shown(name)}; known are {', '.join(known)}"
        elif not known[name].checks.holds(value):
            yield f"`{name}` in {place} is {shown(value)}, but must be {known[name].checks.name}"


def _built(declared: object, given: Any) -> Any:
    """A well-formed part of a header as its annotation declares it."""
    if get_origin(declared) is Annotated:
        declared = get_args(declared)[0]
    if get_origin(declared) is Mapping:
        return {name: _built(get_args(declared)[1], it) for name, it in given.items()}
    if isinstance(declared, type) and is_dataclass(declared):
        known = fields_of(declared)
        return declared(**{name: _built(known[name].declared, it) for name, it in given.items()})
    return tuple(given) if get_origin(declared) is tuple else given


def _between(given: Mapping[str, object]) -> Iterator[str]:
    operator, tables = given.get("operator"), given.get("tables")
    if isinstance(operator, dict) and isinstance(retry := operator.get("retry"), dict):
        yield from _complaints(Retry, retry, "`operator.retry` of the header")
        if retry.get("backoff") == "exponential" and "multiplier" not in retry:
            yield "`operator.retry` of the header lacks `multiplier`, which an exponential backoff has"
        for name in _EXPONENTIAL_ONLY:
            if retry.get("backoff") == "fixed" and name in retry:
                yield f"`operator.retry` of the header has `{name}`, which a fixed backoff has not"
    if "substitute" in given and not (
        isinstance(operator, dict) and operator.get("on_timeout") == "substitute"
    ):
        yield 'the header has `substitute`, so `on_timeout` of `operator` must be "substitute"'
    if isinstance(tables, dict):
        yield from _tables(tables, given)


def _tables(tables: Mapping[str, object], header: Mapping[str, object]) -> Iterator[str]:
    audits: list[str] = []
    for name, table in tables.items():
        place = f"the table {shown(name)} of the header"
        if not isinstance(table, dict):
            yield f"{place} is {shown(table)}, but must be an object"
            continue
        yield from _complaints(Table, table, place)
        if (holds := table.get("holds")) in _HOLDINGS:
            yield from _kept(table, set(holds), header, place)
            if "audit" in holds:
                audits.append(name)
    if len(audits) > 1:
        yield f"{len(audits)} tables of the header hold the audit ({', '.join(map(shown, audits))}); one may"


def _kept(
    table: Mapping[str, object], holds: set[str], header: Mapping[str, object], place: str
) -> Iterator[str]:
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


def _unjudged(decisive: object) -> Iterator[str]:
    """The names in `decisive` that are no invariants of a history."""
    if not isinstance(decisive, list) or not all(isinstance(name, str) for name in decisive):
        return
    for name in decisive:
        if name in NOT_ON_A_HISTORY:
            yield f"`decisive` names {name}, which no history is judged by: {NOT_ON_A_HISTORY[name]}"
        elif name not in INVARIANTS:
            yield f"`decisive` names {shown(name)}, which is no invariant; known are {', '.join(INVARIANTS)}"


def header_schema() -> Json:
    """The JSON Schema of line 1."""
    whole = object_schema(Header)
    retry = object_schema(Retry)
    fixed = {name: check for name, check in retry["properties"].items() if name not in _EXPONENTIAL_ONLY}
    growing = {**retry["properties"], "backoff": {"enum": ["exponential"]}}
    whole["properties"]["operator"]["properties"]["retry"] = {
        "oneOf": [
            {**retry, "properties": {**fixed, "backoff": {"enum": ["fixed"]}}},
            {**retry, "required": [*retry["required"], "multiplier"], "properties": growing},
        ]
    }
    whole["properties"]["tables"] = {"type": "object", "additionalProperties": _table_schema()}
    return whole


def _table_schema() -> Json:
    """Without the rules between a table and the rest of the header."""
    rows = {"enum": [words for words in _HOLDINGS if "audit" not in words]}
    outputs = {"enum": [words for words in _HOLDINGS if "outputs" in words]}
    whole = object_schema(Table)
    return {
        "anyOf": [
            whole | {"properties": {"holds": {"const": ["audit"]}}},
            whole | {"properties": {**whole["properties"], "holds": rows, "ordered": {"const": False}}},
            whole | {"properties": {**whole["properties"], "holds": outputs, "keep": {"const": "all"}}},
        ]
    }


def object_schema(kind: type) -> Json:
    """The JSON Schema of a header or of one object in it."""
    known = fields_of(kind)
    required = [name for name, part in known.items() if part.required]
    properties = {
        name: part.checks.schema if part.part is None else object_schema(part.part)
        for name, part in known.items()
    }
    named = {"required": required} if required else {}
    return {"type": "object", **named, "properties": properties, "additionalProperties": False}


def header_json(header: object) -> Json:
    """The object of a header of either view, or of a part of one; fields equal to their defaults are left out."""
    assert is_dataclass(header)
    assert not isinstance(header, type)
    known = fields_of(type(header))
    given: dict[str, Any] = {}
    for item in fields(header):
        value = getattr(header, item.name)
        default = item.default if item.default_factory is MISSING else item.default_factory()
        if known[item.name].required or value != default:
            given[item.name] = _json_of(value)
    return given


def _json_of(value: object) -> object:
    if is_dataclass(value) and not isinstance(value, type):
        return header_json(value)
    if isinstance(value, Mapping):
        return {name: _json_of(inner) for name, inner in value.items()}
    return list(value) if isinstance(value, tuple) else value
