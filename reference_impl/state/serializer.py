"""Serializers for the values of a state, the schemas that describe them, and values with a timestamp.

Answers to Flink's `TypeSerializerSnapshot` and `TypeSerializerSchemaCompatibility`. Invariant: types with equal
schemas store equal values as equal bytes; values are never read with an incompatible schema (S2).

Answers to Flink's `TtlValue`. Invariant: the timestamp is the first eight bytes, so it can be read, added and removed
without decoding the value (S11, S17).

Answers to Flink's `TypeSerializer` and `KryoSerializer`. Invariant: whatever is encoded can be decoded, so a value of
the wrong type is refused when it is written, not when it is read after a restore; decoding creates a new value each
time, so no caller shares an object with the state (S3).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from enum import Enum
from typing import Any, Protocol

import msgspec
from msgspec import Struct, inspect, msgpack


class Compatibility(Enum):
    """Whether values stored with one schema can be read with another."""

    AS_IS = "as is"
    AFTER_MIGRATION = "after migration"
    """Readable once they have been rewritten."""
    INCOMPATIBLE = "incompatible"


class Schema(Struct, frozen=True, kw_only=True):
    """A type: its kind, its name if it is user-defined, and the schemas of its parts."""

    kind: str
    name: str = ""
    parts: tuple[Schema, ...] = ()
    fields: tuple[str, ...] = ()
    """For a record: the names of its parts."""
    optional: tuple[str, ...] = ()
    """For a record: the names of fields with a default."""

    def __str__(self) -> str:
        if self.kind == "nullable":
            return f"{self.parts[0]} | None"
        if self.kind == "record":
            return f"{self.name}({', '.join(map('{}: {}'.format, self.fields, self.parts))})"
        parts = f"[{', '.join(map(str, self.parts))}]" if self.parts else ""
        return (self.name or self.kind) + parts

    @property
    def kinds(self) -> tuple[str, ...]:
        """Its own kind and those of all its parts."""
        return (self.kind, *(kind for part in self.parts for kind in part.kinds))


ANY = Schema(kind="any")
"""The schema of undeclared types: any value that `PlainSerializer` accepts."""


def schema_of(declared: object) -> Schema:
    """The schema of a type annotation; TypeError if its values cannot be stored."""
    if declared is Any:
        return ANY
    return _schema(inspect.type_info(declared), ())


def ttl_of(schema: Schema) -> Schema:
    """The schema of values that are stored with the time of their last access (S11)."""
    return Schema(kind="ttl", parts=(schema,))


def compatibility(*, new: Schema, old: Schema) -> Compatibility:
    """Whether values stored as `old` can be read as `new`.

    An int may become a float, null may become allowed, a record may change fields, TTL may be switched on and off
    (S17).
    """
    if new == old:
        return Compatibility.AS_IS
    if "ttl" in {new.kind, old.kind}:
        new_value, old_value = (schema.parts[0] if schema.kind == "ttl" else schema for schema in (new, old))
        found = compatibility(new=new_value, old=old_value)
        return found if new.kind == old.kind else _migrated(found)  # if only one side has timestamps
    return (
        Compatibility.INCOMPATIBLE
        if "any" in (*new.kinds, *old.kinds)
        else _compatibility_of_changed(new, old)
    )


def _compatibility_of_changed(new: Schema, old: Schema) -> Compatibility:
    """For two schemas that differ and contain no Any."""
    if (old.kind, new.kind) == ("int", "float"):
        return Compatibility.AFTER_MIGRATION
    if new.kind == "nullable":
        inner = old.parts[0] if old.kind == "nullable" else old
        return _migrated(compatibility(new=new.parts[0], old=inner))
    if (new.kind, new.name) != (old.kind, old.name):
        return Compatibility.INCOMPATIBLE
    if new.kind == "record":
        return _compatibility_of_records(new, old)
    if new.kind in {"enum", "literal", "union"} or len(new.parts) != len(old.parts):
        return Compatibility.INCOMPATIBLE
    pairs = zip(new.parts, old.parts, strict=True)
    return _worst(compatibility(new=part, old=was) for part, was in pairs)


def _compatibility_of_records(new: Schema, old: Schema) -> Compatibility:
    """Fields may be removed, and added if they have a default; the common ones must be compatible."""
    was = dict(zip(old.fields, old.parts, strict=True))
    if any(field not in was and field not in new.optional for field in new.fields):
        return Compatibility.INCOMPATIBLE
    stay = [(part, was[field]) for field, part in zip(new.fields, new.parts, strict=True) if field in was]
    return _migrated(_worst(compatibility(new=part, old=part_was) for part, part_was in stay))


def _worst(found: Iterable[Compatibility]) -> Compatibility:
    """The worst of them; AS_IS if there are none."""
    order = list(Compatibility)
    return max(found, key=order.index, default=Compatibility.AS_IS)


def _migrated(found: Compatibility) -> Compatibility:
    """`found`, but at best AFTER_MIGRATION."""
    return _worst([found, Compatibility.AFTER_MIGRATION])


_KINDS: dict[type[inspect.Type], str] = {
    inspect.AnyType: "any",
    inspect.NoneType: "None",
    inspect.BoolType: "bool",
    inspect.IntType: "int",
    inspect.FloatType: "float",
    inspect.StrType: "str",
    inspect.BytesType: "bytes",
    inspect.DateTimeType: "datetime",
    inspect.DateType: "date",
    inspect.TimeType: "time",
    inspect.TimeDeltaType: "timedelta",
    inspect.UUIDType: "uuid",
    inspect.DecimalType: "decimal",
}
_OF_ITEMS: dict[type[inspect.Type], str] = {
    inspect.ListType: "list",
    inspect.SetType: "set",
    inspect.FrozenSetType: "frozenset",
    inspect.VarTupleType: "tuple...",
}


def _schema(info: inspect.Type, around: tuple[type, ...]) -> Schema:
    """Convert msgspec's description; `around` holds the enclosing records, since a record may contain itself."""
    if (kind := _KINDS.get(type(info))) is not None:
        return Schema(kind=kind)
    match info:
        case inspect.ListType() | inspect.SetType() | inspect.FrozenSetType() | inspect.VarTupleType():
            return Schema(kind=_OF_ITEMS[type(info)], parts=(_schema(info.item_type, around),))
        case inspect.TupleType():
            return Schema(kind="tuple", parts=tuple(_schema(item, around) for item in info.item_types))
        case inspect.DictType():
            return Schema(
                kind="dict", parts=(_schema(info.key_type, around), _schema(info.value_type, around))
            )
        case inspect.UnionType():
            given = (item for item in info.types if not isinstance(item, inspect.NoneType))
            parts = tuple(_schema(item, around) for item in given)
            whole = parts[0] if len(parts) == 1 else Schema(kind="union", parts=parts)
            return Schema(kind="nullable", parts=(whole,)) if info.includes_none else whole
        case inspect.EnumType():
            return Schema(kind="enum", name=f"{info.cls.__name__}({', '.join(info.cls.__members__)})")
        case inspect.LiteralType():
            return Schema(kind="literal", name=repr(info.values))
        case (
            inspect.StructType()
            | inspect.DataclassType()
            | inspect.NamedTupleType()
            | inspect.TypedDictType()
        ):
            return _schema_of_record(info, around)
    raise TypeError(
        f"values of {info} cannot be stored; declare a type that msgspec knows, or Any for plain values"
    )


def _schema_of_record(
    info: inspect.StructType | inspect.DataclassType | inspect.NamedTupleType | inspect.TypedDictType,
    around: tuple[type, ...],
) -> Schema:
    if info.cls in around:
        return Schema(kind="record", name=info.cls.__name__)
    within = (*around, info.cls)
    is_array = isinstance(info, inspect.NamedTupleType) or getattr(info, "array_like", False)
    schema = Schema(
        kind="record",
        name=info.cls.__name__,
        fields=tuple(field.encode_name for field in info.fields),
        parts=tuple(_schema(field.type, within) for field in info.fields),
        optional=tuple(field.encode_name for field in info.fields if not field.required),
    )
    if not is_array:
        return schema
    return msgspec.structs.replace(schema, kind="array record")  # its fields are identified by position


_STAMP_BYTES = 8


class TtlValue(Struct, frozen=True):
    """A value of a state with a time to live."""

    value: Any
    last_access_ms: int


def stamped(data: bytes, last_access_ms: int) -> bytes:
    """Put the timestamp in front of an encoded value."""
    return last_access_ms.to_bytes(_STAMP_BYTES, "big", signed=True) + data


def last_access_of(data: bytes) -> int:
    """The timestamp of a stored value (ms)."""
    return int.from_bytes(data[:_STAMP_BYTES], "big", signed=True)


def unstamped(data: bytes, schema: Schema) -> tuple[bytes, Schema]:
    """The value and schema without timestamp, if they have one."""
    if schema.kind != "ttl":
        return data, schema
    return data[_STAMP_BYTES:], schema.parts[0]


UNENCODABLE = (TypeError, OverflowError, UnicodeEncodeError)
"""What `encode` may raise: for a wrong type, an int beyond 64 bits, or a string with half a surrogate pair."""


class TypeSerializer(Protocol):
    """Serializes one declared type."""

    @property
    def schema(self) -> Schema: ...

    def encode(self, value: Any) -> bytes:
        """Raises one of `UNENCODABLE` for a value of another type."""

    def decode(self, data: bytes) -> Any:
        """A new value, equal to the encoded one."""

    def migrate(self, data: bytes, old: Schema) -> bytes:
        """Rewrite what was stored as `old`, which must be compatible after migration."""


_SCALARS = {"bool": bool, "int": int, "str": str, "bytes": bytes}
_RECORDS = frozenset({"record", "array record"})


def serializer_for(declared: object) -> TypeSerializer:
    """The serializer for a type annotation; `PlainSerializer` if it contains Any but no user-defined type."""
    schema = schema_of(declared)
    kinds = schema.kinds
    if "any" in kinds and _RECORDS.isdisjoint(kinds):
        return PlainSerializer(schema)
    if schema.kind in _SCALARS:
        return ScalarSerializer(_SCALARS[schema.kind], schema)
    return TypedSerializer(declared, schema)


class TypedSerializer:
    """Any composed type, through msgspec.

    A part declared as Any is decoded as msgpack does: a tuple becomes a list.
    """

    def __init__(self, declared: object, schema: Schema) -> None:
        self.schema = schema
        has_sets = not {"set", "frozenset"}.isdisjoint(schema.kinds)
        self._encode = msgpack.Encoder(order="deterministic" if has_sets else None).encode
        self.decode: Callable[[bytes], Any] = msgpack.Decoder(declared).decode

    def encode(self, value: object) -> bytes:
        """Decodes at once what it has encoded, since msgspec's encoder does not check types."""
        data = self._encode(value)
        try:
            self.decode(data)
        except msgspec.ValidationError as error:
            raise TypeError(f"{value!r} is no {self.schema}: {error}") from None
        return data

    def migrate(self, data: bytes, old: Schema) -> bytes:
        """Decode as the new type and encode again."""
        value, _ = unstamped(data, old)
        return self._encode(self.decode(value))


class _ReadAsItIs:
    def migrate(self, data: bytes, old: Schema) -> bytes:
        """Only removes the timestamp: no other type can become one of these."""
        return unstamped(data, old)[0]


class ScalarSerializer(_ReadAsItIs):
    """A type whose values all have exactly one class, so an encoded value need not be decoded to be checked."""

    def __init__(self, kind: type, schema: Schema) -> None:
        self.schema = schema
        self._kind = kind
        self._encode = msgpack.Encoder().encode
        self.decode: Callable[[bytes], Any] = msgpack.Decoder(kind).decode

    def encode(self, value: object) -> bytes:
        """Raises TypeError also for a bool where an int was declared."""
        if type(value) is not self._kind:
            raise TypeError(f"{value!r} is no {self.schema}")
        return self._encode(value)


_TUPLE, _SET, _FROZENSET, _BIG_INT, _DICT = range(1, 6)
"""Extension codes for the types that msgpack does not have."""
_AS_THEY_ARE = frozenset({type(None), bool, float, str, bytes})
_INT_MIN, _INT_MAX = -(2**63), 2**64 - 1
"""The range of msgpack's integers."""


class PlainSerializer(_ReadAsItIs):
    """Any plain value, with its exact type restored: for states that declare no type.

    Plain values are None, bool, int of any size, float, str, bytes, and list, tuple, dict, set, frozenset of them.

    Answers to Flink's `KryoSerializer`, which serves types without a serializer of their own. Invariant: a decoded
    value is equal and has the same type at every depth, a tuple stays a tuple and True is not 1; equal sets have equal
    bytes in every process. Reading executes no code, unlike pickle.
    """

    def __init__(self, schema: Schema = ANY) -> None:
        self.schema = schema
        self.decode: Callable[[bytes], Any] = _decode

    def encode(self, value: object) -> bytes:
        """Raises TypeError for anything but plain values."""
        return _encode(_packed(value))


def _packed(value: Any) -> object:
    """The value in types that msgpack has."""
    kind = type(value)
    if kind in _AS_THEY_ARE:
        return value
    if kind is int:
        return value if _INT_MIN <= value <= _INT_MAX else msgpack.Ext(_BIG_INT, str(value).encode())
    if kind is list:
        return [_packed(item) for item in value]
    if kind is tuple:
        return _extended(_TUPLE, map(_packed, value))
    if kind is dict:
        return _extended(_DICT, (_packed(part) for item in value.items() for part in item))
    if kind is set or kind is frozenset:
        items = sorted(_encode(_packed(item)) for item in value)
        return msgpack.Ext(_SET if kind is set else _FROZENSET, _encode(items))
    raise TypeError(
        f"a {kind.__name__} is no plain value; declare the state's type, so that it can be stored and read back"
    )


def _extended(code: int, items: Iterable[object]) -> msgpack.Ext:
    return msgpack.Ext(code, _encode(list(items)))


def _unpacked(code: int, data: memoryview) -> object:
    match code:
        case 1:
            return tuple(_decode(data))
        case 2:
            return set(map(_decode, _decode(data)))
        case 3:
            return frozenset(map(_decode, _decode(data)))
        case 4:
            return int(bytes(data))
        case 5:
            parts = iter(_decode(data))
            return dict(zip(parts, parts, strict=True))
    raise ValueError(f"a stored value has a part of kind {code}, which this version does not know")


_encode = msgpack.Encoder().encode
_decode = msgpack.Decoder(ext_hook=_unpacked).decode
