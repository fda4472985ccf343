"""Planted defect: a restore takes the end of its range of key groups for the first that is not its own any more.

Answers to every confusion of the two kinds of ranges (S8, S9): whatever lies in the last key group of a subtask is gone
after the first restart, and nobody raises an error.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from reference_impl.state.handles import KeyedStateHandle
from reference_impl.state.keyed_state_backend import KeyedStateBackend

__all__ = ["ShortBackend"]


class ShortBackend(KeyedStateBackend):
    """Restores one key group too few. Mutable."""

    def restore(self, handles: Iterable[KeyedStateHandle | None]) -> None:
        super().restore(None if handle is None else self._shortened(handle) for handle in handles)

    def _shortened(self, handle: KeyedStateHandle) -> KeyedStateHandle:
        mine = range(self.key_group_range.start, self.key_group_range.end)
        kept = {key_group: blocks for key_group, blocks in handle.key_groups.items() if key_group in mine}
        return msgspec.structs.replace(handle, key_groups=kept)
