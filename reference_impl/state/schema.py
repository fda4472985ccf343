"""The schema of a state's values: a description in plain data that a snapshot can contain.

Answers to Flink's `TypeSerializerSnapshot` and `TypeSerializerSchemaCompatibility`. Invariant: types with equal
schemas store equal values as equal bytes; values are never read with an incompatible schema (S2).
"""

from __future__ import annotations

from enum import Enum
from typing import Any

import msgspec
from msgspec import Struct, inspect


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


def _worst(found: Any) -> Compatibility:
    """The worst of them; AS_IS if there are none."""
    order = list(Compatibility)
    return max(found, key=order.index, default=Compatibility.AS_IS)


def _migrated(found: Compatibility) -> Compatibility:
    """`found`, but at best AFTER_MIGRATION."""
    return _worst([found, Compatibility.AFTER_MIGRATION])


_SCALARS: dict[type[inspect.Type], str] = {
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
    if (kind := _SCALARS.get(type(info))) is not None:
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
