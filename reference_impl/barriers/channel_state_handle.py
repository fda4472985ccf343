"""What was in flight when a checkpoint cut: the elements of each channel that the barrier overtook.

Answers to Flink's `InputChannelStateHandle` and `ResultSubpartitionStateHandle`. Invariant: plain frozen values, the
elements in the order in which their channel carried them; a channel of which nothing was captured is not named (C10).
"""

from __future__ import annotations

from dataclasses import dataclass

from reference_impl.barriers.input_channel_info import InputChannelInfo, ResultSubpartitionInfo
from reference_impl.elements import OperatorInput

__all__ = ["InputChannelStateHandle", "ResultSubpartitionStateHandle"]


@dataclass(frozen=True, slots=True, kw_only=True)
class InputChannelStateHandle:
    """Of a channel on the way in."""

    info: InputChannelInfo
    elements: tuple[OperatorInput, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ResultSubpartitionStateHandle:
    """Of a channel on the way out."""

    info: ResultSubpartitionInfo
    elements: tuple[OperatorInput, ...]
