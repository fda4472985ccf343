"""The reaper of attempts: writes the `kill` of an attempt whose process is gone.

Invariant: an attempt is called dead only if it neither closed nor failed by its own word, and its process, by
pid and start, does not exist any more.
"""

from __future__ import annotations

from harness.history.follower import AttemptView, Progress
from harness.history.recorder import Recorder
from harness.process_identity import exists

__all__ = ["AttemptReaper"]


class AttemptReaper:
    """Call `look` often."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._dead: set[tuple[int, int]] = set()

    def look(self, progress: Progress) -> list[AttemptView]:
        """Record each attempt that has died since the last look; those."""
        alive = (view for name, view in progress.attempts.items() if name not in self._dead and not view.over)
        gone = [view for view in alive if _is_gone(view)]
        for view in gone:
            self._dead.add((view.subtask, view.attempt))
            self._recorder.record("kill", s=view.subtask, a=view.attempt)
        return gone


def _is_gone(view: AttemptView) -> bool:
    """A process that is still to be reaped (a zombie) is not gone yet."""
    return view.process is not None and not exists(view.process)
