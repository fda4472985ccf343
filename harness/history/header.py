"""The header of a history: the operator's configuration and claims, its sink, bounds and expectations.

Implements "Header" of `docs/reference/history.md`, with its defaults. Invariant: a `Header` from `parse_header` keeps
every rule of that section; None means that an optional field was absent.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal, NamedTuple, cast

from harness.history.values import shown
from harness.verdict import INVARIANTS, NOT_ON_A_HISTORY

__all__ = [
    "VERSION",
    "Bounds",
    "Expects",
    "Header",
    "OperatorHeader",
    "Retry",
    "Table",
    "header_json",
    "header_schema",
    "parse_header",
]

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
    multiplier: int | float | None = None
    """None with `fixed`. Compared as the decimal it is written as."""
    max_ms: int | None = None
    """None: no limit, or `fixed`."""
    slack_ms: int = 0
    on: tuple[Literal["fail", "unknown", "empty"], ...] = ("fail",)
    """The outcomes that are retried; `empty` is an `ok` whose `v` is `[]`."""
    at_end: Literal["once", "same"] = "once"
    profile: Literal["strict", "flink"] = "strict"


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


class _Check(NamedTuple):
    """A type of field: the test of a value, the name for messages, and the JSON Schema."""

    holds: Callable[[Any], bool]
    name: str
    schema: Mapping[str, Any]


def _whole(low: int) -> _Check:
    return _Check(
        lambda value: type(value) is int and value >= low,
        f"an integer of at least {low}",
        {"type": "integer", "minimum": low},
    )


def _one_of(*names: str) -> _Check:
    said = "one of " + ", ".join(f'"{name}"' for name in names)
    return _Check(lambda value: isinstance(value, str) and value in names, said, {"enum": list(names)})


def _is_names(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(name, str) for name in value)


_FLAG = _Check(lambda value: isinstance(value, bool), "true or false", {"type": "boolean"})
_NAMES = _Check(_is_names, "a list of names", {"type": "array", "items": {"type": "string"}})
_JUDGED = _Check(_is_names, "a list of names", {"type": "array", "items": {"enum": list(INVARIANTS)}})
_OBJECT = _Check(lambda value: isinstance(value, dict), "an object", {"type": "object"})
_VERSION = _Check(
    lambda value: type(value) is int and value == VERSION,
    f"{VERSION}, the version of this format",
    {"const": VERSION},
)
_ANYTHING = _Check(lambda _: True, "any JSON", {})

_OPERATOR: Mapping[str, _Check] = {
    "mode": _one_of("ordered", "unordered"),
    "capacity": _whole(1),
    "timeout_ms": _whole(0),
    "max_tries": _whole(1),
    "watermark_slots": _FLAG,
    "coalesces_watermarks": _FLAG,
    "per_key_order": _FLAG,
}
_BOUNDS: Mapping[str, _Check] = {bound.name: _whole(0) for bound in fields(Bounds)}
_EXPECTS: Mapping[str, _Check] = {
    "records": _whole(0),
    "checkpoints": _whole(0),
    "restores": _whole(0),
    "faults": _NAMES,
}
_TOP: Mapping[str, _Check] = {
    "history": _VERSION,
    "operator": _OBJECT,
    "sink": _one_of("rollback", "append", "atomic", "two-phase"),
    "effects": _one_of("records", "outputs"),
    "fenced": _FLAG,
    "bounds": _OBJECT,
    "expects": _OBJECT,
    "decisive": _JUDGED,
    "run": _ANYTHING,
}
_PARTS: Mapping[str, tuple[Mapping[str, _Check], tuple[str, ...]]] = {
    "operator": (_OPERATOR, ("mode", "capacity", "timeout_ms")),
    "bounds": (_BOUNDS, ()),
    "expects": (_EXPECTS, ()),
}
"""For each object in the header its fields, and which of them are required."""
_REQUIRED = ("history", "operator")


def parse_header(given: Mapping[str, Any]) -> Header | list[Complaint]:
    """The header that the object of line 1 describes, or the list of everything wrong with it."""
    if type(version := given.get("history")) is int and version != VERSION:
        # The other fields of another version cannot be judged.
        return [f"the history is of version {version}; only version {VERSION} can be read"]
    complaints = list(_complaints(given))
    if complaints:
        return complaints
    values = dict(given)
    values["operator"] = OperatorHeader(**given["operator"])
    if "bounds" in given:
        values["bounds"] = Bounds(**given["bounds"])
    if "expects" in given:
        faults = tuple(given["expects"].get("faults", ()))
        values["expects"] = Expects(**{**given["expects"], "faults": faults})
    if "decisive" in given:
        values["decisive"] = tuple(given["decisive"])
    return Header(**values)


def _complaints(given: Mapping[str, Any]) -> Iterator[Complaint]:
    yield from _part(given, _TOP, required=_REQUIRED, place="the header")
    for name, (checks, required) in _PARTS.items():
        if isinstance(part := given.get(name), dict):
            yield from _part(part, checks, required=required, place=f"`{name}` of the header")
    if _is_names(decisive := given.get("decisive")):
        yield from _unjudged(cast("list[str]", decisive))


def _part(
    given: Mapping[str, Any], checks: Mapping[str, _Check], *, required: tuple[str, ...], place: str
) -> Iterator[Complaint]:
    for name in required:
        if name not in given:
            yield f"{place} lacks `{name}`"
    for name, value in given.items():
        if name not in checks:
            yield f"{place} has an unknown field {shown(name)}; known are {', '.join(checks)}"
        elif not checks[name].holds(value):
            yield f"`{name}` in {place} is {shown(value)}, but must be {checks[name].name}"


def _unjudged(decisive: list[str]) -> Iterator[Complaint]:
    for name in decisive:
        if name in NOT_ON_A_HISTORY:
            yield f"`decisive` names {name}, which no history is judged by: {NOT_ON_A_HISTORY[name]}"
        elif name not in INVARIANTS:
            yield f"`decisive` names {shown(name)}, which is no invariant; known are {', '.join(INVARIANTS)}"


def header_schema() -> dict[str, Any]:
    """The JSON Schema of line 1."""
    whole = _object_schema(_TOP, _REQUIRED)
    for name, (checks, required) in _PARTS.items():
        whole["properties"][name] = _object_schema(checks, required)
    return whole


def _object_schema(checks: Mapping[str, _Check], required: tuple[str, ...]) -> dict[str, Any]:
    named = {"required": list(required)} if required else {}
    properties = {name: check.schema for name, check in checks.items()}
    return {"type": "object", **named, "properties": properties, "additionalProperties": False}


def header_json(header: Header) -> dict[str, Any]:
    """The object of line 1; fields equal to their defaults are left out."""
    given: dict[str, Any] = {"history": header.history, "operator": _given(header.operator)}
    given |= {name: value for name, value in _given(header).items() if name not in given}
    if header.bounds != Bounds():
        given["bounds"] = _given(header.bounds)
    else:
        given.pop("bounds", None)
    if header.expects is not None:
        faults = {"faults": list(header.expects.faults)} if header.expects.faults else {}
        given["expects"] = {**_given(header.expects), **faults}
    if header.decisive is not None:
        given["decisive"] = list(header.decisive)
    return given


def _given(part: OperatorHeader | Bounds | Expects | Header) -> dict[str, Any]:
    pairs = ((item.name, getattr(part, item.name), item.default) for item in fields(part))
    return {name: value for name, value, default in pairs if value != default}
