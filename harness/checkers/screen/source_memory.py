"""What the source of one subtask has said so far, as far as a restart may read it again.

Answers to `history.source_identity` in less memory. Invariant: what comes again is compared with what came first,
or it is irregular; nothing is taken on trust. Memory grows with what lies after the oldest snap that may still
be restored.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec import UNSET

from harness.checkers.screen.irregular import Irregular
from harness.history.event import Id, In, Wm
from harness.history.values import same

__all__ = ["SourceMemory"]

_KEPT_MAX = 1 << 17


class SourceMemory:
    """Positions from `base` up to `high` are remembered. Mutable."""

    def __init__(self, note_id: Callable[[Id], None]) -> None:
        self.note_id = note_id
        """Takes the id of each record that comes for the first time."""
        self.base = 0
        self.high = 0
        """The first position that nobody has taken."""
        self.kept: list[In | Wm] = []
        self.keep = self.kept.append

    def again(self, taken: In | Wm) -> None:
        """Compare an element that was taken before with what it was then."""
        index = taken.pos - self.base
        if not 0 <= index < len(self.kept):
            raise Irregular("a position that is not remembered")
        if not _equal(self.kept[index], taken):
            raise Irregular("the source contradicts itself")

    def let_go(self, pos: int) -> None:
        """Nothing below `pos` will be read again; if it is after all, that is irregular."""
        if pos > self.base:
            del self.kept[: pos - self.base]
            self.base = pos

    def bound(self) -> None:
        """Let the older half go, if nobody says how far a restart may reach back."""
        if len(self.kept) > _KEPT_MAX:
            self.let_go(self.high - _KEPT_MAX // 2)


def _equal(first: In | Wm, now: In | Wm) -> bool:
    if isinstance(first, Wm) or isinstance(now, Wm):
        return isinstance(first, Wm) and isinstance(now, Wm) and first.w == now.w
    if first.id != now.id or not same(first.key, now.key):
        return False
    if (None if first.ts is UNSET else first.ts) != (None if now.ts is UNSET else now.ts):
        return False
    return same(first.expect, now.expect)
