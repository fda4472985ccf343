"""Planted defect: the first write after a snapshot marks what it writes to as its own, and does not copy it.

Answers to FLINK-26968 (C7, S9): the snapshot that is being written sees later writes, and who restores it and replays
counts them twice.
"""

from __future__ import annotations

from reference_impl.state.copy_on_write_state_map import Chunk, CopyOnWriteStateMap

__all__ = ["SharingStateMap"]


class SharingStateMap(CopyOnWriteStateMap):
    """Shares its chunks with its snapshots. Mutable."""

    def own(self, position: int, chunk: Chunk) -> Chunk:
        if not chunk.entries:
            return super().own(position, chunk)
        chunk.version = self.version
        return chunk
