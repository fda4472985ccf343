"""The simulated checkpoint store: whether the part that a subtask handed in can be read again.

The counterpart of `harness.checkpoint_store`. Invariant: a part is restored only if it is whole; what is passed over is
counted, and nothing older than what is visible already is ever given back to a sink that would show it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final, Protocol

from harness.checkpoint_store import StoreLost
from harness.choices import Choices
from harness.database.backoff import Backoff

if TYPE_CHECKING:
    from harness.sim.attempt import Attempt
    from harness.sim.coordinator import Part

__all__ = ["SimulatedStore", "StoreTrouble"]

_INSIST_MS: Final = 20_000
"""As long as a write that fails is tried again."""


class StoreTrouble(Protocol):
    """What acts on the store while it lasts."""

    def slows_ms(self, subtask: int) -> int:
        """How long this write takes more."""

    def fails(self, subtask: int) -> bool:
        """Whether this write fails."""

    def written(self, part: Part) -> bool:
        """Whether the part that was just written stays whole."""


class SimulatedStore:
    """Of a whole run. Mutable: `troubles` come and go; what is `broken` is torn, or missing."""

    def __init__(self) -> None:
        self.troubles: list[StoreTrouble] = []
        self._broken: dict[tuple[int, int, int], str] = {}
        """Subtask, checkpoint and attempt of a part: what is wrong with it."""
        self.passed_over = 0

    def write(self, attempt: Attempt, part: Part) -> None:
        """Store it, again and again if need be. Raises `StoreLost`."""
        if not self.troubles:
            return
        hub, subtask = attempt.run.hub, part.subtask
        until_ms = hub.now_ms + _INSIST_MS
        backoff = Backoff(Choices(part.checkpoint.number, f"waits of the store of subtask {subtask}"))
        while True:
            attempt.sleep_until(hub.now_ms + sum(one.slows_ms(subtask) for one in self.troubles))
            if not any([one.fails(subtask) for one in self.troubles]):  # noqa: C419 - each counts
                break
            if hub.now_ms >= until_ms:
                number = part.checkpoint.number
                raise StoreLost(
                    f"checkpoint {number} of subtask {subtask} could not be stored within {_INSIST_MS} ms"
                )
            attempt.sleep_until(hub.now_ms + backoff.next_ms())
        for one in self.troubles:
            if not one.written(part):
                self.breaks(part, "torn")

    def breaks(self, part: Part, what: str) -> None:
        """It cannot be read from now on: it is `torn`, or `missing`."""
        self._broken[part.subtask, part.checkpoint.number, part.attempt] = what

    def newest(self, parts: Sequence[Part], *, floor: int) -> Part | None:
        """The newest of `parts` (newest first) that can be read, if it is not older than epoch `floor`.

        Raises `StoreLost` if there are parts and none will do.
        """
        passed: list[str] = []
        for part in parts:
            number = part.checkpoint.number
            if passed and number < floor:
                break
            what = self._broken.get((part.subtask, number, part.attempt))
            if what is None:
                self.passed_over += len(passed)
                return part
            passed.append(f"checkpoint {number} is {what}")
        if not parts:
            return None
        older = (
            f"; older ones than epoch {floor}, which is committed, would show outputs twice" if floor else ""
        )
        raise StoreLost(
            f"no checkpoint of subtask {parts[0].subtask} can be restored: {', '.join(passed)}{older}"
        )
