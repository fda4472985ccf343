"""The effective output O* of a subtask: what a reader of the sink gets to see in the end, in its order.

Answers to "Epoch" and "Effective output" of `docs/history.md`. Invariant: an entry is one appearance of one
emission; with transactional sinks the same emission appears as often as its epoch is committed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple, assert_never

from harness.checkers.chain import Chain, Checkpoints
from harness.checkers.history_trace import Subtask
from harness.history.event import Emission, Out
from harness.history.header import Sink

__all__ = ["Shown", "effective_output", "outputs"]


class Shown(NamedTuple):
    """An emission that is visible, and the commit that made it so (None: none was needed)."""

    emission: Emission
    commit: int | None = None

    @property
    def witness(self) -> tuple[int, ...]:
        """The events that show this appearance."""
        return (self.emission.n,) if self.commit is None else (self.emission.n, self.commit)


def effective_output(subtask: Subtask, *, sink: Sink, checkpoints: Checkpoints, chain: Chain) -> list[Shown]:
    """O* of the subtask."""
    match sink:
        case "append":
            emissions = (e for attempt in subtask.attempts.values() for e in attempt.emissions)
            return [Shown(emission) for emission in sorted(emissions, key=lambda emission: emission.n)]
        case "rollback":
            return list(_kept(chain))
        case "atomic" | "two-phase":
            return list(_committed(subtask, checkpoints))
        case _:
            assert_never(sink)


def _kept(chain: Chain) -> Iterator[Shown]:
    for attempt, cut in chain.links:
        until = len(attempt.emissions) if cut is None else cut.emitted
        yield from map(Shown, attempt.emissions[:until])


def _committed(subtask: Subtask, checkpoints: Checkpoints) -> Iterator[Shown]:
    for commit in subtask.commits:
        if (cut := checkpoints.cut_committed(commit)) is not None:
            epoch = subtask.attempts[cut.snap.a].emissions[cut.since : cut.emitted]
            yield from (Shown(emission, commit.n) for emission in epoch)


def outputs(shown: list[Shown]) -> Iterator[tuple[Shown, Out]]:
    """The records' results among what is visible."""
    return ((entry, entry.emission) for entry in shown if isinstance(entry.emission, Out))
