"""One value of the current key.

Answers to Flink's `ValueState` and `HeapValueState`. Invariant: what is read is a copy of what was last written, and of
the default if nothing was; changing it changes nothing until it is written (S3).
"""

from __future__ import annotations

from typing import Any

from reference_impl.state.serializer import UNENCODABLE, TypeSerializer
from reference_impl.state.state_descriptor import ValueStateDescriptor
from reference_impl.state.state_table import KeyedEntry, StateTable

__all__ = ["ValueState"]


class ValueState:
    """The state that a `ValueStateDescriptor` asks for. Mutable."""

    def __init__(
        self, descriptor: ValueStateDescriptor, serializer: TypeSerializer, table: StateTable
    ) -> None:
        self.descriptor = descriptor
        self.table = table
        self._entry = KeyedEntry(table)
        self._serializer = serializer
        self._default = self._encoded_default(descriptor.default)

    @property
    def current_namespace(self) -> Any:
        """The namespace that the next access is about."""
        return self._entry.namespace

    def set_current_namespace(self, namespace: Any) -> None:
        """Let accesses be about `namespace` from now on."""
        self._entry.namespace = namespace

    def value(self) -> Any:
        """The value; the default if there is none."""
        data = self._entry.get()
        if data is None:
            data = self._default
        return None if data is None else self._serializer.decode(data)

    def update(self, value: Any) -> None:
        """Replace the value; None is no value, so it clears (S3)."""
        if value is None:
            self._entry.remove()
            return
        try:
            data = self._serializer.encode(value)
        except UNENCODABLE as error:
            raise self._entry.refusal(error) from None
        self._entry.put(data)

    def clear(self) -> None:
        """Let there be no value."""
        self._entry.remove()

    def _encoded_default(self, default: Any) -> bytes | None:
        try:
            return None if default is None else self._serializer.encode(default)
        except UNENCODABLE as error:
            raise self._entry.refusal(f"the default does not fit: {error}") from None
