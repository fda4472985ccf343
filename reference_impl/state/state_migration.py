"""Lets what was restored be read as what is registered now, if it can be.

Answers to Flink's `StateSerializerProvider` and `AbstractKeyedStateBackend`'s check at registration. Invariant: after
it the table's values are all of the new type; if they cannot be, nothing has changed (S2).
"""

from __future__ import annotations

import msgspec

from reference_impl.errors import StateMigrationException
from reference_impl.state.keyed_state_handle import StateMetaInfo
from reference_impl.state.schema import Compatibility, Schema, compatibility
from reference_impl.state.serializer import TypeSerializer
from reference_impl.state.state_table import StateTable

__all__ = ["migrate"]


def migrate(table: StateTable, meta: StateMetaInfo, serializer: TypeSerializer) -> None:
    """Rewrite the values of `table` as `serializer` has them, where need be; StateMigrationException if they cannot."""
    old = table.meta
    match _compatibility(new=meta, old=old):
        case Compatibility.INCOMPATIBLE:
            raise _refusal(
                table, f"it was restored as {old} and is registered as {meta}, which cannot read it"
            )
        case Compatibility.AFTER_MIGRATION:
            try:
                table.rewrite(lambda data: _migrated(data, serializer, old.schema))
            except (TypeError, ValueError, msgspec.MsgspecError) as error:
                raise _refusal(table, f"a value of it, restored as {old}, is no {meta}: {error}") from error
    table.meta = meta


def _compatibility(*, new: StateMetaInfo, old: StateMetaInfo) -> Compatibility:
    """Its kind and the type of a map's keys cannot change."""
    if (new.kind, new.key_schema) != (old.kind, old.key_schema):
        return Compatibility.INCOMPATIBLE
    return compatibility(new=new.schema, old=old.schema)


def _migrated(data: bytes | None, serializer: TypeSerializer, old: Schema) -> bytes | None:
    """A value of a map may be None; where the new ones have stamps, it gets one like the others."""
    if data is not None:
        return serializer.migrate(data, old)
    if serializer.schema.kind == "ttl" and old.kind != "ttl":
        stamped = serializer.migrate(_NONE, old)
        serializer.decode(stamped)  # or else it would be refused when it is read (S6)
        return stamped
    return None


def _refusal(table: StateTable, problem: str) -> StateMigrationException:
    return StateMigrationException(
        f"{problem}; keep the old type, or give the state another name",
        operator=table.context.operator,
        state=table.name,
    )


_NONE = msgspec.msgpack.encode(None)
