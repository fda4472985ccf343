"""Planted defect: of a checkpoint that was aborted before its barrier came, nobody downstream hears a word.

Answers to FLINK-18238 (C2). Who is one of several inputs of a task, and sends neither barrier nor marker, leaves
that task with its other channels blocked for a checkpoint that will never be.
"""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from reference_impl.checkpoint_events import CancelCheckpointMarker, ChannelEvent
from reference_impl.checkpoints.subtask_checkpoint_coordinator import (
    CheckpointedChain,
    SubtaskCheckpointCoordinator,
)

__all__ = ["build_coordinator"]


class _MuteChain:
    """A chain that keeps markers to itself."""

    def __init__(self, chain: CheckpointedChain) -> None:
        self._chain = chain

    def __getattr__(self, name: str) -> Any:
        return getattr(self._chain, name)

    def broadcast_event(self, event: ChannelEvent, *, is_priority: bool) -> None:
        if not isinstance(event, CancelCheckpointMarker):
            self._chain.broadcast_event(event, is_priority=is_priority)


class _SilentCoordinator(SubtaskCheckpointCoordinator):
    def checkpoint_state(self, *args: Any, **parts: Any) -> None:
        more: MutableMapping[str, Any] = {**parts, "operator_chain": _MuteChain(parts["operator_chain"])}
        super().checkpoint_state(*args, **more)


def build_coordinator(**parts: Any) -> SubtaskCheckpointCoordinator:
    """A coordinator that tells nobody of what it passes over."""
    return _SilentCoordinator(**parts)
