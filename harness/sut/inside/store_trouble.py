"""Trouble with the checkpoint store: what faults do before each write of one attempt.

Answers to a remote file system on a bad day. Invariant: a fault acts on the writes of its own time alone.
"""

from __future__ import annotations

from collections.abc import Callable

from harness.checkpoint_store import CheckpointStore, Files
from harness.clock import monotonic_us

__all__ = ["StoreTrouble"]


class StoreTrouble:
    """One attempt's; a `SiteStore`. Mutable: what acts on its writes now, each with the instant when it is over."""

    def __init__(self, store: CheckpointStore) -> None:
        self._store = store
        self._acting: list[tuple[int, Callable[[], None]]] = []
        store.trouble = self.before_write

    def before_write(self) -> None:
        """By the store: take the time, or raise the OSError, that a fault asks for."""
        for until_us, meet in self._acting:
            if monotonic_us() < until_us:
                meet()

    def meets(self, meet: Callable[[], None], *, lasts_ms: int) -> None:
        """See `SiteStore`."""
        self._acting.append((monotonic_us() + lasts_ms * 1000, meet))

    @property
    def files(self) -> Files:
        """See `SiteStore`."""
        return self._store.files
