"""The input of an attempt: the elements it restored, then what it took from its source.

Answers to "Input of an attempt" in `docs/history.md`. Invariant: which of two elements precedes is decided by
position; a restored record that the subtask never took in belongs to the input and has no position.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from harness.checkers.history_trace import Attempt
from harness.checkers.subtask_input import SubtaskInput
from harness.checkers.which_watermark import positions_of_emissions
from harness.history.event import Id, In, Owm, W, Wm

__all__ = ["AttemptInput", "Element", "Mark", "RecordOf", "element_of", "elements_of"]


class Mark(NamedTuple):
    """A watermark at its position."""

    pos: int
    w: W


class RecordOf(NamedTuple):
    """A record, by its id."""

    id: Id


Element = RecordOf | Mark
"""What `elements` of a snap lists; a Mark and a record are never equal, for their lengths differ."""


def element_of(given: Mapping[str, Any]) -> Element:
    """One entry of `elements`; fields that the page does not name are ignored."""
    return RecordOf(given["id"]) if "id" in given else Mark(given["pos"], given["w"])


def elements_of(given: Sequence[Mapping[str, Any]]) -> Iterator[Element]:
    """The entries of `elements`, in order."""
    return map(element_of, given)


class AttemptInput:
    """What an attempt had to work on, in all its life; who looks at a moment asks `Progress` instead."""

    def __init__(self, attempt: Attempt, source: SubtaskInput) -> None:
        self._source = source
        self.records: dict[Id, int | None] = {}
        marks: dict[Mark, None] = {}
        for element in elements_of(attempt.restore.elements if attempt.restore else ()):
            if isinstance(element, Mark):
                marks[element] = None
            else:
                self.records[element.id] = source.position(element.id)
        for event in attempt.events:
            if isinstance(event, In):
                self.records[event.id] = event.pos
            elif isinstance(event, Wm):
                marks[Mark(event.pos, event.w)] = None
        self.marks: list[Mark] = sorted(marks, key=lambda mark: mark.pos)
        self.positions_of: dict[W, list[int]] = {}
        for mark in self.marks:
            self.positions_of.setdefault(mark.w, []).append(mark.pos)
        stands = zip(
            attempt.emissions,
            positions_of_emissions(attempt.emissions, self.positions_of),
            strict=True,
        )
        self.left: dict[int, int] = {
            emission.n: pos for emission, pos in stands if pos is not None and isinstance(emission, Owm)
        }
        """For each `owm`, by its `n`, the position that it stands for; surplus ones are absent."""

    def position(self, element: Element) -> int | None:
        """Where an element stands; None for a record that the subtask never took in."""
        if isinstance(element, Mark):
            return element.pos
        known = self.records.get(element.id)
        return self._source.position(element.id) if known is None else known
