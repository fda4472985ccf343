"""The emitter: a thread of its own, which waits for the next entry that may leave, and emits it under the lock.

Answers to `Emitter` and the checkpoint lock of Flink 1.2 to 1.9. Invariant: while the emitter emits, the task's thread
waits for it; whatever the emission raises is raised there, and never lost.

In Flink the task held the checkpoint lock for as long as it processed one element or took one snapshot, and the
scheduler decided whether the emitter came in between two of them. Here the lock is a baton: the task decides when to
give it away (`turn`: a completion, or the mail that follows an emission), and has it back when one entry is out. So
what is observed does not depend on the scheduler, a held completion emits nothing, the task may cut a checkpoint
between two turns without knowing of any lock, and the emitter never has to put mail, which virtual time would refuse.
One hand-over is a switch between threads and back, some tens of microseconds: the price of the first design.
"""

from __future__ import annotations

from collections.abc import Callable
from threading import Condition, Thread

from reference_impl.elements import OperatorInput
from reference_impl.emitter.buffers import Buffer
from reference_impl.errors import WrongState

__all__ = ["STOP_LIMIT_S", "THREAD_NAME", "Emitter"]

STOP_LIMIT_S = 5.0
"""How long `stop` waits for an emission that is under way; then for the thread to end."""
THREAD_NAME = "emitter"


class Emitter:
    """Emits the entries of one buffer. Mutable; its thread begins with the first turn, whoever waits for that one.

    So it also runs during a replay of more than the capacity; Flink once started it behind the replay (FLINK-7949).
    """

    def __init__(self, *, buffer: Buffer, lock: Condition, emit: Callable[[OperatorInput], None]) -> None:
        self._buffer = buffer
        self._lock = lock
        self._emit = emit
        self._thread = Thread(target=self._run, name=THREAD_NAME, daemon=True)
        self._has_turn = False
        self._stopped = False
        self._raised: BaseException | None = None

    def turn(self) -> bool:
        """Give the lock away until one entry is out, if one may leave; whether one more may. Stopped, do nothing.

        The task's own thread calls it, and gets what the emission raises, as if it had emitted itself.
        """
        with self._lock:
            if self._stopped or not self._buffer.has_completed:
                return False
            self._hand_over()
            raised, self._raised = self._raised, None
            if raised is None:
                return self._buffer.has_completed
        raise raised

    def _hand_over(self) -> None:
        self._has_turn = True
        if self._thread.ident is None:
            self._thread.start()
        self._lock.notify_all()
        self._lock.wait_for(lambda: self._stopped or not self._has_turn)

    def stop(self) -> None:
        """End the thread. An emission that hangs is left to itself after a while, and said to be (FLINK-5638)."""
        self._stopped = True
        if self._thread.ident is None:
            return
        if self._lock.acquire(timeout=STOP_LIMIT_S):
            self._lock.notify_all()
            self._lock.release()
            self._thread.join(STOP_LIMIT_S)
        if self._thread.is_alive():
            raise WrongState(
                f"the emitter did not stop within {STOP_LIMIT_S} s, for an emission hangs; see what blocks downstream"
            )

    def _run(self) -> None:
        with self._lock:
            while self._wait_for_turn():
                try:
                    self._buffer.emit_next(self._emit)
                except BaseException as raised:  # noqa: BLE001 - it is raised in the task's thread
                    self._raised = raised
                self._has_turn = False
                self._lock.notify_all()

    def _wait_for_turn(self) -> bool:
        """Until the task has given the lock away; False when it never will again."""
        self._lock.wait_for(lambda: self._stopped or self._has_turn)
        return not self._stopped
