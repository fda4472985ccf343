"""How each kind of state lies in a snapshot's file.

Answers to the serializers that Flink's `MetadataV3Serializer` brings together. Invariant: what is decoded equals
what was encoded, and is of a type that is fixed here, by the state's kind: a file chooses no type (nothing is
ever unpickled).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from msgspec import Struct, msgpack

from reference_impl.barriers.channel_state_handle import (
    InputChannelStateHandle,
    ResultSubpartitionStateHandle,
)
from reference_impl.barriers.input_channel_info import InputChannelInfo, ResultSubpartitionInfo
from reference_impl.elements import OperatorInput
from reference_impl.internal_timers.timers_handle import TimersHandle
from reference_impl.snapshots.stream_element_serializer import from_state, to_state
from reference_impl.state.keyed_state_handle import KeyedStateHandle
from reference_impl.state.operator_state_handle import OperatorStateHandle
from reference_impl.state.plain_serializer import PlainSerializer

__all__ = ["HANDLE_TYPES", "decode_handle", "encode_handle"]


class _Channel(Struct, frozen=True, array_like=True):
    """What was in flight in one channel; its elements have no types that tell them apart, so they say their kind."""

    first: int
    """Of the channel's two numbers: the gate, or the partition."""
    second: int
    elements: tuple[bytes, ...]


HANDLE_TYPES: Mapping[str, Any] = MappingProxyType(
    {
        "managed_operator_state": OperatorStateHandle,
        "raw_operator_state": tuple[bytes, ...],
        "managed_keyed_state": KeyedStateHandle,
        "raw_keyed_state": TimersHandle,
        "input_channel_state": tuple[_Channel, ...],
        "result_channel_state": tuple[_Channel, ...],
    }
)
"""By the field of `OperatorSubtaskState`: what is written of it."""

_PLAIN = PlainSerializer()


def encode_handle(state: str, handle: Any) -> bytes:
    """The bytes of `handle`. Raises TypeError for what is no plain value."""
    match state:
        case "input_channel_state":
            handle = [
                _channel(each.info.gate_idx, each.info.input_channel_idx, each.elements) for each in handle
            ]
        case "result_channel_state":
            handle = [
                _channel(each.info.partition_idx, each.info.sub_partition_idx, each.elements)
                for each in handle
            ]
    return msgpack.encode(handle)


def decode_handle(state: str, data: bytes) -> Any:
    """The handle again. Raises ValueError, or WrongState, for what never was one."""
    decoded = msgpack.decode(data, type=HANDLE_TYPES[state])
    match state:
        case "input_channel_state":
            return tuple(
                InputChannelStateHandle(
                    info=InputChannelInfo(gate_idx=each.first, input_channel_idx=each.second),
                    elements=_elements(each),
                )
                for each in decoded
            )
        case "result_channel_state":
            return tuple(
                ResultSubpartitionStateHandle(
                    info=ResultSubpartitionInfo(partition_idx=each.first, sub_partition_idx=each.second),
                    elements=_elements(each),
                )
                for each in decoded
            )
    return decoded


def _channel(first: int, second: int, elements: tuple[OperatorInput, ...]) -> _Channel:
    return _Channel(first, second, tuple(_PLAIN.encode(to_state(element)) for element in elements))


def _elements(channel: _Channel) -> tuple[OperatorInput, ...]:
    return tuple(from_state(_PLAIN.decode(element)) for element in channel.elements)
