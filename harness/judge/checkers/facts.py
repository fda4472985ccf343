"""Facts that several checkers give for their anomalies, with `let` in place of each event."""

from __future__ import annotations

from collections.abc import Iterator

from harness.history.event import In, Out, W, Wm
from harness.history.values import shown
from harness.history.verdict import let, let_all
from harness.judge.checkers.indexed_history import SubtaskView
from harness.judge.checkers.outputs import visible

_PLACES = 3


def precedes(first: In | Wm, second: In | Wm) -> str:
    """That one element precedes another in the source."""
    positions = f"position {first.pos} comes before {second.pos}"
    return f"{let(first.n)} precedes {let(second.n)} in the source: {positions}."


def places(view: SubtaskView, w: W) -> str:
    """Where a watermark stands in the source."""
    marks = view.marks_of(w)
    if not marks:
        return f"The source of subtask {view.s} holds no watermark {shown(w)}."
    where = ", ".join(str(mark.pos) for mark in marks[:_PLACES])
    where += f" and {len(marks) - _PLACES} more" if len(marks) > _PLACES else ""
    named = let_all(mark.n for mark in marks[:_PLACES])
    return f"In the source, watermark {shown(w)} stands at position {where} ({named})."


def two_results(view: SubtaskView, late: Out, other: Out) -> Iterator[str]:
    """That a result is visible after one that follows it."""
    taken, ahead = view.taken(late.id), view.taken(other.id)
    if late.id == other.id:
        yield f"{let(late.n)} is output {late.j} of its record, {let(other.n)} is output {other.j}."
    elif taken is not None and ahead is not None:
        yield precedes(taken, ahead)
    yield f"But {visible(late.n, 'after', other.n)}."
