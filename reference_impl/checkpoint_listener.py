"""Who wants to hear what became of a checkpoint.

Answers to Flink's `CheckpointListener`. Invariant: notifications are best effort. One may be lost, come late, come
after that of a later checkpoint, or name one that this instance never took part in; complete(n) covers every
number below n, and aborted(n) says nothing about the data of n, which belong to the next that completes (C38, C39).
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

__all__ = ["CheckpointListener", "HearsOfAborted", "HearsOfComplete"]


@runtime_checkable
class HearsOfComplete(Protocol):
    """Half a listener is one too: Flink's second method has a default that does nothing."""

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        """`checkpoint_id` is durable, and so is all before it; what this raises fails the task (C15)."""


@runtime_checkable
class HearsOfAborted(Protocol):
    """The other half."""

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        """`checkpoint_id` will never complete; what was kept for it alone may go."""


@runtime_checkable
class CheckpointListener(HearsOfComplete, HearsOfAborted, Protocol):
    """An operator, a function or a sink that acts when a checkpoint is over, in whatever way."""
