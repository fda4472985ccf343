"""The fields of a struct or dataclass as its annotations declare them: checks, messages, JSON Schema.

Type and limits of a field are its annotation. A `msgspec.Meta` says the rest: `description` is the name for messages,
`extra_json_schema` the schema, and `extra` may hold

- `holds`: a test of the value beyond its type,
- `claim`: the claim of the header without which the field is an unknown one,
- `phase`: the only `phase` of its event in which the field is known,
- `required`: `True`, although the field has a default,
- `shape`: the name of a type that depends on the header,
- `after`: the field that it follows in schema and messages, where that is not the order of the struct.

The schema (draft 07) accepts what the check accepts, except that JSON Schema counts `1.0` as an integer.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from decimal import Decimal
from functools import cache
from types import MappingProxyType, NoneType
from typing import Any, NamedTuple, get_args, get_origin, get_type_hints

from msgspec import Meta, Struct, UnsetType, structs

from harness.history.values import shown
from harness.system.json_types import Json, JsonView

Test = Callable[[Any], bool]
"""A test of a value, or of a whole event."""


class FieldType(NamedTuple):
    """A type of field: the test of a value, the name for messages, and the JSON Schema."""

    holds: Test
    name: str
    schema: Mapping[str, Any]
    at_once: frozenset[type] = frozenset()
    """Python types all of whose values pass, so that most fields need no call of `holds`."""


class Field(NamedTuple):
    """One field of a kind of event, of a header or of a part of one."""

    checks: FieldType
    required: bool
    attribute: str
    """Its name in Python: `from` is a keyword there."""
    declared: Any
    """Its annotation, without `UNSET`, and in a header without None: both mean that it is absent."""
    extra: Mapping[str, Any]

    @property
    def part(self) -> type | None:
        """The dataclass of a part of a header."""
        kind = self.declared
        return kind if isinstance(kind, type) and dataclasses.is_dataclass(kind) else None


def field_type(declared: object, *, in_header: bool = False) -> FieldType:
    """The checks that an annotation states; a header words a choice differently."""
    args = get_args(declared)
    match get_origin(declared) or declared:
        case typing.Annotated:
            plain = field_type(_without(args[0], UnsetType), in_header=in_header)
            for meta in args[1:]:
                plain = _limited(plain, meta)
            return plain
        case typing.Union | types.UnionType:
            return _union_type([field_type(one) for one in args])
        case typing.Literal:
            words = [f'"{value}"' for value in args]
            name = "one of " + ", ".join(words) if in_header and len(words) > 1 else _either(words)
            schema = {"enum": list(args)} if len(words) > 1 else {"const": args[0]}
            return FieldType(lambda value: isinstance(value, str) and value in args, name, schema)
        case kind if kind in {list, tuple}:
            return _list_type(args[0])
        case kind:
            return _PLAIN.get(kind, _OBJECT)


def _plain(kind: type, name: str, word: str) -> FieldType:
    return FieldType(lambda value: type(value) is kind, name, {"type": word}, frozenset({kind}))


_OBJECT = _plain(dict, "an object", "object")
"""The type of a dict, and of a part of a header."""
_PLAIN: Mapping[Any, FieldType] = {
    Any: FieldType(lambda _: True, "any JSON", {}, frozenset({int, str, list, dict})),
    bool: _plain(bool, "true or false", "boolean"),
    int: _plain(int, "an integer", "integer"),
    float: _plain(float, "a number", "number"),
    Decimal: _plain(Decimal, "a number", "number"),
    str: _plain(str, "a string", "string"),
    NoneType: _plain(NoneType, "null", "null"),
}


def _either(names: Sequence[str]) -> str:
    return " or ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _limited(plain: FieldType, meta: Meta) -> FieldType:
    """The type with a limit, a name, a schema or a test of its own."""
    if (low := meta.ge) is not None:
        limited = {"type": "integer", "minimum": low}
        return FieldType(
            lambda value: type(value) is int and value >= low, f"an integer of at least {low}", limited
        )
    schema = plain.schema
    tests: list[Test] = []
    if (least := meta.min_length) is not None:
        schema = {**schema, "minItems": least}
        tests.append(lambda value: len(value) >= least)
    if meta.extra and "holds" in meta.extra:
        tests.append(meta.extra["holds"])
    found = plain._replace(name=meta.description or plain.name, schema=meta.extra_json_schema or schema)
    if not tests:
        return found
    return found._replace(
        holds=lambda value: plain.holds(value) and all(test(value) for test in tests), at_once=frozenset()
    )


def _list_type(item: object) -> FieldType:
    if item is Any:
        return _plain(list, "a list", "array")
    inner = field_type(item)
    holds = inner.holds
    words = get_args(item) if get_origin(item) is typing.Literal else ()
    name = "a list of " + (", ".join(f'"{word}"' for word in words) or "names")
    schema = {"type": "array", "items": {"enum": list(words)} if words else inner.schema}
    return FieldType(lambda value: type(value) is list and all(map(holds, value)), name, schema)


def _union_type(kinds: Sequence[FieldType]) -> FieldType:
    first, *others = [one.holds for one in kinds]
    names = [one.name for one in kinds]
    schema: dict[str, Any] = {"anyOf": [one.schema for one in kinds]}
    if all("type" in one.schema for one in kinds):
        schema = {"type": [one.schema["type"] for one in kinds]}
        schema |= {name: limit for one in kinds for name, limit in one.schema.items() if name != "type"}
    return FieldType(
        lambda value: first(value) or any(holds(value) for holds in others),
        ", or ".join(names) if "minimum" in schema else _either(names),
        schema,
        frozenset().union(*(one.at_once for one in kinds)),
    )


def _without(declared: object, absent: type) -> object:
    """The annotation without the type that stands for an absent field."""
    if get_origin(declared) not in {typing.Union, types.UnionType}:
        return declared
    return typing.Union[tuple(one for one in get_args(declared) if one is not absent)]  # noqa: UP007


@cache
def fields_of(kind: type) -> Mapping[str, Field]:
    """The fields of a struct, or of a dataclass of a header, by their names in JSON."""
    in_header = dataclasses.is_dataclass(kind)
    if in_header:
        absent = dataclasses.MISSING
        rows = [
            (one.name, one.name, one.default is absent and one.default_factory is absent)
            for one in dataclasses.fields(kind)
        ]
    else:
        rows = [(one.encode_name, one.name, one.required) for one in structs.fields(kind)]
    hints = get_type_hints(kind, include_extras=True)
    found: dict[str, Field] = {}
    for name, attribute, required in rows:
        declared = _without(hints[attribute], NoneType if in_header else UnsetType)
        metas = get_args(declared)[1:] if get_origin(declared) is typing.Annotated else ()
        extra = {key: value for meta in metas for key, value in (meta.extra or {}).items()}
        checks = field_type(declared, in_header=in_header)
        found[name] = Field(checks, required or "required" in extra, attribute, declared, extra)
    order = list(found)
    for name, field in found.items():
        if (before := field.extra.get("after")) is not None:
            order.remove(name)
            order.insert(order.index(before) + 1, name)
    return {name: found[name] for name in order}


class LineFields(NamedTuple):
    """The result of checking one line: its kind, its well-typed fields, its complaints."""

    good: dict[str, Any]
    kind: str = ""
    """Empty if the kind is unknown."""
    complaints: Sequence[str] = ()
    event: Any = None
    """The struct; None if there is any complaint."""


class Kinds:
    """The kinds of event of one view, as their structs declare them, under the claims of a header."""

    def __init__(
        self,
        structs: Iterable[type[Struct]],
        *,
        claims: Collection[str] = (),
        shapes: Mapping[str, FieldType] = MappingProxyType({}),
        of_unknown: type[Struct] | None = None,
        between: Callable[[str, Mapping[str, object], Mapping[str, object]], Iterable[str]] = lambda *_: (),
    ) -> None:
        """`of_unknown`: has the fields read of an unknown kind; `between`: complaints about several fields."""
        self.make = {str(make.__struct_config__.tag): make for make in structs}
        self._between = between
        self.fields: dict[str, dict[str, Field]] = {}
        """The fields of each kind; of one that has phases, those of `begin`."""
        self.ended: dict[str, dict[str, Field]] = {}
        """The fields of phase `end`, of kinds that have phases of their own fields."""
        for kind, make in self.make.items():
            declared = {
                name: field._replace(checks=shapes.get(field.extra.get("shape", ""), field.checks))
                for name, field in fields_of(make).items()
                if field.extra.get("claim") in {None, *claims}
            }
            for phase, rows in (("begin", self.fields), ("end", self.ended)):
                rows[kind] = {n: f for n, f in declared.items() if f.extra.get("phase", phase) == phase}
            if self.ended[kind] == self.fields[kind]:
                del self.ended[kind]
        first, *others = self.fields.values()
        self._everywhere = {n: field for n, field in first.items() if all(n in row for row in others)}
        self._renamed = {
            n for row in self.fields.values() for n, field in row.items() if field.attribute != n
        }
        self._of_unknown = self._everywhere if of_unknown is None else fields_of(of_unknown)

    def check(self, given: Mapping[str, object]) -> LineFields:
        """Check the object of one line."""
        kind = given.get("k")
        if not isinstance(kind, str) or kind not in self.fields:
            said = f"unknown kind of event {shown(kind)}" if "k" in given else "the event lacks `k`, its kind"
            _, complaints = check_fields(given, self._everywhere, "an event")
            return LineFields(
                good=check_fields(given, self._of_unknown, "an event")[0], complaints=[said, *complaints]
            )
        fields = self.fields[kind]
        if kind in self.ended and given.get("phase") == "end":
            fields = self.ended[kind]
        good, complaints = check_fields(given, fields, f"`{kind}`")
        complaints.extend(self._between(kind, given, good))
        if complaints:
            return LineFields(kind=kind, good=good, complaints=complaints)
        given = good
        if not good.keys().isdisjoint(self._renamed):
            given = {fields[name].attribute: value for name, value in good.items()}
        return LineFields(kind=kind, good=good, event=self.make[kind](**given))

    def schema(self, title: str, header: Mapping[str, object], **further: JsonView) -> Json:
        """The schema of any line; `further`: keys to add to the schemas of kinds."""
        events = {k: _event_schema(k, row) for k, row in self.fields.items() if k not in self.ended}
        for kind in self.ended:
            events[f"{kind}-begin"] = _event_schema(kind, self.fields[kind], phase="begin")
            events[f"{kind}-end"] = _event_schema(kind, self.ended[kind], phase="end")
        return {
            "$schema": "http://json-schema.org/draft-07/schema#",
            "title": title,
            "description": "Line 1 is `#/definitions/header`, every other line `#/definitions/event`.",
            "anyOf": [{"$ref": "#/definitions/header"}, {"$ref": "#/definitions/event"}],
            "definitions": {
                "header": header,
                "event": {"anyOf": [{"$ref": f"#/definitions/{name}"} for name in events]},
                **{name: {**schema, **further.get(name, {})} for name, schema in events.items()},
            },
        }


def check_fields(
    given: Mapping[str, object], wanted: Mapping[str, Field], place: str
) -> tuple[Json, list[str]]:
    """The well-typed fields of an object, and the complaints about the others."""
    good: dict[str, Any] = {}
    complaints: list[str] = []
    for name, field in wanted.items():
        kind = field.checks
        if name not in given:
            if field.required:
                complaints.append(f"{place} lacks `{name}`, {kind.name}")
        elif type(value := given[name]) in kind.at_once or kind.holds(value):
            good[name] = value
        else:
            complaints.append(f"`{name}` of {place} is {shown(value)}, but must be {kind.name}")
    return good, complaints


def _event_schema(kind: str, fields: Mapping[str, Field], **fixed: str) -> Json:
    """The schema of one kind of event; unknown fields are allowed."""
    constants = {name: {"const": value} for name, value in {"k": kind, **fixed}.items()}
    required = ["k", *(name for name, field in fields.items() if field.required)]
    properties = {name: field.checks.schema for name, field in fields.items()}
    return {"type": "object", "required": required, "properties": {**properties, **constants}}
