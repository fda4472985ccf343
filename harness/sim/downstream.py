"""Downstream: whoever gets what an operator emits, without room now and then.

Answers to the output availability of a Flink task under back pressure. Invariant: it lets a few emissions through
before it is shut again, so what is held is held for a known time at most.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from reference_impl.queues.availability import AVAILABLE, Availability

if TYPE_CHECKING:
    from harness.sim.attempt import Attempt

__all__ = ["Downstream"]


class Downstream:
    """One attempt's. Mutable: shut for `shut_ms` each time that it was asked for room `asked_max` times."""

    def __init__(self, attempt: Attempt, *, asked_max: int, shut_ms: int) -> None:
        self._attempt = attempt
        self._asked_max = asked_max
        self._shut_ms = shut_ms
        self._asked = 0
        self._shut: Availability | None = None

    def __call__(self) -> Availability:
        """Whether there is room, and the wait for it."""
        if self._shut is not None:
            return self._shut
        self._asked += 1
        if self._asked <= self._asked_max:
            return AVAILABLE
        loop = self._attempt.loop
        assert loop is not None, "an attempt has its loop before its operator"
        self._asked = 0
        self._shut = Availability()
        loop.call_at_ms(self._attempt.run.hub.now_ms + self._shut_ms, self._open)
        return self._shut

    def _open(self) -> None:
        shut, self._shut = self._shut, None
        assert shut is not None, "it opens once each time that it is shut"
        shut.end()
