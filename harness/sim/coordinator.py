"""The coordinator of a job's checkpoints: a number is complete once every subtask that goes on has its part in.

Answers to Flink's `CheckpointCoordinator` and its `CompletedCheckpointStore`, which keeps one. Invariant: what is
completed consists of parts of the current attempts only, so that a superseded one, however late, adds nothing; and
what is restored is the latest completed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from msgspec import Struct

from reference_impl.task.positioned_input import Checkpoint

__all__ = ["Coordinator", "Part", "Word"]

Word = Literal["done", "abort", "retire"]
"""What the coordinator says of a number, in the words of a history."""


class Part(Struct, frozen=True, kw_only=True):
    """One subtask's part of a checkpoint, as its attempt acknowledged it."""

    subtask: int
    attempt: int
    checkpoint: Checkpoint
    elements: list[dict[str, Any]]
    """Those of the checkpoint as they are stored."""
    state: Any = None
    """What the sink keeps with it."""
    is_final: bool = False
    """Everything has left the operator; nothing follows."""


class Coordinator:
    """The state of a job's checkpoints. Mutable; knows no time and sends nothing: it is told, and says what is.

    `say` hears each word on a number as it falls. `recounts` says whether numbers come again after a restart, for
    they stand in the source (barriers), and `keeps` how many completed checkpoints may still be restored.
    """

    def __init__(
        self, *, subtasks: int, say: Callable[[Word, int], None], recounts: bool, keeps: int = 1
    ) -> None:
        self._say = say
        self._keeps = keeps
        self._recounts = recounts
        self._attempts: dict[int, int | None] = dict.fromkeys(range(subtasks))
        """Of each subtask: the attempt that counts; None between two."""
        self._going_on: dict[int, None] = dict.fromkeys(range(subtasks))
        """The subtasks that have not ended."""
        self._pending: dict[int, dict[int, Part]] = {}
        self._given_up: dict[int, None] = {}
        self._completed: dict[int, list[Part]] = {}
        """Of each subtask, those that are kept, the newest first."""
        self.latest: int | None = None
        """The number of the latest completed checkpoint."""
        self._numbers = 0

    def begins(self, subtask: int, attempt: int) -> None:
        """From now on this attempt's word counts, and no other's."""
        self._attempts[subtask] = attempt

    def is_current(self, subtask: int, attempt: int) -> bool:
        """Whether this attempt's word counts."""
        return self._attempts[subtask] == attempt

    def trigger(self) -> int | None:
        """The number of a new checkpoint; None while an attempt is missing, or one is pending already."""
        if self._pending or any(self._attempts[subtask] is None for subtask in self._going_on):
            return None
        self._numbers += 1
        self._pending[self._numbers] = {}
        return self._numbers

    def acknowledge(self, part: Part) -> int | None:
        """Take a part in; the number, if that completes it."""
        number = part.checkpoint.number
        if not self.is_current(part.subtask, part.attempt) or number in self._given_up:
            return None
        if self.latest is not None and number <= self.latest:
            return None  # a later one was complete first: nobody needs this one any more
        self._pending.setdefault(number, {})[part.subtask] = part
        return number if self._is_complete(number) else None

    def _is_complete(self, number: int) -> bool:
        """Whether nobody's part is missing; then it is complete from now on."""
        parts = self._pending[number]
        if not parts or any(subtask not in parts for subtask in self._going_on):
            return False
        self._complete(number)
        return True

    def _complete(self, number: int) -> None:
        for subtask, part in self._pending.pop(number).items():
            self._completed[subtask] = [part, *self._completed.get(subtask, ())][: self._keeps]
        for older in [pending for pending in self._pending if pending < number]:
            self.give_up(older)
        self.latest = number
        self._say("done", number)
        if number > self._keeps:
            self._say("retire", number - self._keeps)

    def give_up(self, number: int) -> None:
        """It takes too long, or an attempt that had a part in it is gone."""
        if self._pending.pop(number, None) is not None:
            self._given_up[number] = None
            self._say("abort", number)

    def finals(self, number: int) -> list[int]:
        """The subtasks whose part in the completed checkpoint `number` was their last."""
        return [
            part.subtask
            for part, *_ in self._completed.values()
            if part.is_final and part.checkpoint.number <= number
        ]

    def ends(self, subtask: int, attempt: int) -> int | None:
        """The subtask has nothing left to do: its last part is in a completed checkpoint.

        The number of the latest checkpoint that waited for nobody else.
        """
        if not self.is_current(subtask, attempt):
            return None
        self._going_on.pop(subtask, None)
        completed = [number for number in sorted(self._pending) if self._is_complete(number)]
        return completed[-1] if completed else None

    def has_ended(self, subtask: int) -> bool:
        """Whether nothing of the subtask will run any more."""
        return subtask not in self._going_on

    def restart(self) -> list[int]:
        """All who go on go back to the latest completed checkpoint; who that is."""
        for number in list(self._pending):
            if self._recounts:
                del self._pending[number]
            else:
                self.give_up(number)
        if self._recounts:
            self._given_up.clear()
        for subtask in self._going_on:
            self._attempts[subtask] = None
        return list(self._going_on)

    def forget(self, subtask: int) -> None:
        """Its attempt is gone, and another one will hand its parts in, also if all had been done."""
        self._attempts[subtask] = None
        self._going_on.setdefault(subtask)
        for parts in self._pending.values():
            parts.pop(subtask, None)

    def restorable(self, subtask: int) -> list[Part]:
        """The subtask's parts in completed checkpoints, the newest first."""
        return self._completed.get(subtask, [])
