"""What the simulated checkpoint store suffers: it is slow, it fails, it tears what it writes, it loses the newest part.

Answers to a network disk, ENOSPC, a write that was not synced. Invariant: each counts the writes that it met, or the
parts that it broke.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from harness.sim.faults.act import Evidence

if TYPE_CHECKING:
    from harness.sim.coordinated_run import CoordinatedRun
    from harness.sim.coordinator import Part

__all__ = ["StoreFailing", "StoreNewestMissing", "StoreSlow", "StoreTorn"]

_LOOK_MS: Final = 10


class _OnStore:
    """A trouble of the store while it lasts; harmless as it is. Mutable: counts."""

    settles_ms = 0

    def __init__(self, run: CoordinatedRun, subtask: int | None) -> None:
        self._run = run
        self._subtask = subtask
        self._met = 0

    def begins(self) -> None:
        """The next write meets it."""
        self._run.store.troubles.append(self)

    def ends(self) -> None:
        """No more."""
        self._run.store.troubles.remove(self)

    def is_mine(self, subtask: int) -> bool:
        """Whether it acts on this subtask's part."""
        return self._subtask in {None, subtask}

    def slows_ms(self, subtask: int) -> int:
        """See `StoreTrouble`."""
        del subtask
        return 0

    def fails(self, subtask: int) -> bool:
        """See `StoreTrouble`."""
        del subtask
        return False

    def written(self, part: Part) -> bool:
        """See `StoreTrouble`."""
        del part
        return True


class StoreSlow(_OnStore):
    """Each write takes longer. Mutable."""

    def __init__(self, run: CoordinatedRun, subtask: int | None, *, delay_ms: int) -> None:
        super().__init__(run, subtask)
        self._delay_ms = delay_ms

    def slows_ms(self, subtask: int) -> int:
        """See `StoreTrouble`."""
        if not self.is_mine(subtask):
            return 0
        self._met += 1
        return self._delay_ms

    def evidence(self) -> Evidence:
        """How many writes were slow, and by how much in all."""
        return {"writes": self._met, "slowed_ms": self._met * self._delay_ms} if self._met else {}


class StoreFailing(_OnStore):
    """Each write fails. Mutable."""

    def fails(self, subtask: int) -> bool:
        """See `StoreTrouble`."""
        mine = self.is_mine(subtask)
        self._met += mine
        return mine

    def evidence(self) -> Evidence:
        """How many writes failed."""
        return {"failures": self._met} if self._met else {}


class StoreTorn(_OnStore):
    """The next parts are torn as they are written, and nobody notices before they are needed. Mutable."""

    def __init__(self, run: CoordinatedRun, subtask: int | None, *, times: int) -> None:
        super().__init__(run, subtask)
        self._times = times
        self._torn: list[int] = []

    def written(self, part: Part) -> bool:
        """See `StoreTrouble`."""
        if not self.is_mine(part.subtask) or len(self._torn) == self._times:
            return True
        self._torn.append(part.checkpoint.number)
        return False

    def evidence(self) -> Evidence:
        """Which checkpoints were torn, once all were that should be."""
        return {"torn": list(self._torn)} if len(self._torn) == self._times else {}


class StoreNewestMissing:
    """The newest parts of completed checkpoints are removed. Mutable."""

    settles_ms = 0

    def __init__(self, run: CoordinatedRun, subtask: int, *, times: int) -> None:
        self._run = run
        self._subtask = subtask
        self._times = times
        self._removed: list[int] = []
        self._is_over = False

    def begins(self) -> None:
        """Those that there are; else as soon as there are."""
        if self._is_over:
            return
        parts = self._run.coordinator.restorable(self._subtask)[: self._times]
        for part in parts:
            self._run.store.breaks(part, "missing")
            self._removed.append(part.checkpoint.number)
        if not parts:
            self._run.hub.at(self._run.hub.now_ms + _LOOK_MS, self.begins)

    def ends(self) -> None:
        """What is gone is gone."""
        self._is_over = True

    def evidence(self) -> Evidence:
        """Which checkpoints lost their part."""
        return {"removed": list(self._removed)} if self._removed else {}
